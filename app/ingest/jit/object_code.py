"""Object code of compiled functions, which LLVM links and loads."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from .native import MEMORY, MachineCode


@dataclass(frozen=True)
class ObjectCode:
    """content: an object file. needed: the symbols that it has from the process."""

    content: bytes
    needed: tuple[str, ...]

    def load(self) -> MachineCode:
        """The code, ready to be called. Raises ImportError if a symbol is missing: LLVM would take it for 0."""
        # It also makes the symbols of the process known to LLVM.
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), create_target_machine())
        if missing := [name for name in self.needed if llvm.address_of_symbol(name) is None]:
            raise ImportError(f"compiled loops need {', '.join(missing)}")
        engine.add_object_file(llvm.ObjectFileRef.from_data(self.content))
        engine.finalize_object()
        return MachineCode(engine.get_function_address, engine)


def emit_object(assemblies: Iterable[str]) -> bytes:
    """Object code of modules in LLVM's assembly, with the memory of arrays."""
    machine = create_target_machine()
    whole = llvm.parse_assembly(MEMORY)
    whole.triple, whole.data_layout = llvm.get_process_triple(), str(machine.target_data)
    for assembly in assemblies:
        whole.link_in(llvm.parse_assembly(assembly))
    return bytes(machine.emit_object(whole))


def create_target_machine() -> Any:
    """LLVM's target machine for this processor, with the options of a just-in-time compiler."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        # A just-in-time compiler needs static relocation on x86.
        reloc="static" if triple.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )
