"""The operations of `simd` for compiled loops: vector instructions of this processor.

Needs numba, and a processor that puts the lowest byte first.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTE, _BITS = ir.IntType(8), ir.IntType(64)
_VECTOR = ir.VectorType(_BYTE, 64)
_QUOTE, _BACKSLASH, _BLANKS = 34, 92, (32, 10, 13, 9)


def _instruction(function: Any) -> Any:
    """Functions that only compiled loops call."""
    return intrinsic(function)


def _address(context: Any, builder: Any, kind: Any, array: Any, position: Any, what: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [position]), what.as_pointer())


def _load(context: Any, builder: Any, signature: Any, given: Any, what: Any) -> Any:
    return builder.load(_address(context, builder, signature.args[0], given[0], given[1], what), align=1)


def _all(byte: int) -> Any:
    return ir.Constant(_VECTOR, [byte] * 64)


@_instruction
def special_mask(typing: Any, data: Any, position: Any) -> Any:
    """The quotes, backslashes and control characters from `position` on."""

    def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        text = _load(context, builder, signature, given, _VECTOR)
        mask = builder.icmp_unsigned("<", text, _all(32))
        for byte in (_QUOTE, _BACKSLASH):
            mask = builder.or_(mask, builder.icmp_unsigned("==", text, _all(byte)))
        return builder.bitcast(mask, _BITS)

    return types.uint64(data, types.intp), made


@_instruction
def nonblank_mask(typing: Any, data: Any, position: Any) -> Any:
    """The characters from `position` on that are no blanks of JSON."""

    def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        text = _load(context, builder, signature, given, _VECTOR)
        mask = builder.icmp_unsigned("!=", text, _all(_BLANKS[0]))
        for byte in _BLANKS[1:]:
            mask = builder.and_(mask, builder.icmp_unsigned("!=", text, _all(byte)))
        return builder.bitcast(mask, _BITS)

    return types.uint64(data, types.intp), made


@_instruction
def equal_mask(typing: Any, data: Any, position: Any, byte: Any) -> Any:
    """The characters from `position` on that are this byte."""

    def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        text = _load(context, builder, signature, given, _VECTOR)
        wanted = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), given[2], ir.Constant(ir.IntType(32), 0))
        spread = builder.shuffle_vector(wanted, wanted, ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64))
        return builder.bitcast(builder.icmp_unsigned("==", text, spread), _BITS)

    return types.uint64(data, types.intp, types.uint8), made


@_instruction
def copy64(typing: Any, source: Any, position: Any, target: Any, to: Any) -> Any:
    """Copy 64 bytes from one array into another."""

    def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        text = _load(context, builder, signature, given, _VECTOR)
        builder.store(text, _address(context, builder, signature.args[2], given[2], given[3], _VECTOR), align=1)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), made


@_instruction
def load_word(typing: Any, data: Any, position: Any) -> Any:
    """The 8 bytes from `position` on as one number."""

    def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return _load(context, builder, signature, given, _BITS)

    return types.uint64(data, types.intp), made


@_instruction
def count_trailing_zeros(typing: Any, mask: Any) -> Any:
    """Which bit of a mask that has some is the first."""

    def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.cttz(given[0], ir.Constant(ir.IntType(1), 1))

    return types.intp(types.uint64), made


@_instruction
def popcount(typing: Any, mask: Any) -> Any:
    """How many bits of a mask are set."""

    def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.ctpop(given[0])

    return types.intp(types.uint64), made


@_instruction
def multiply_fold(typing: Any, one: Any, other: Any) -> Any:
    """The upper half of a product of 128 bits, mixed with the lower."""

    def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(given[0], wide), builder.zext(given[1], wide))
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _BITS)
        return builder.xor(builder.trunc(product, _BITS), upper)

    return types.uint64(types.uint64, types.uint64), made
