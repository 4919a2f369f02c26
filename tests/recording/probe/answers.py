"""What the probe prints on machines that are not here: put together by hand, each answer as its program words it."""

from perfloom.recording.probe.probe import SECTION_MARKER

Section = tuple[str, str, int]


def printed(*sections: Section) -> str:
    """As the script prints them."""
    return "".join(
        f"\n{SECTION_MARKER} begin {name}\n{text}\n{SECTION_MARKER} end {status}\n" for name, text, status in sections
    )


def place(name: str, path: str, system: str, available_kb: int) -> Section:
    head = "Filesystem                1024-blocks      Used  Available Capacity Mounted on"
    row = f"fs01:/vol home/x         104857600000 943718400 {available_kb}      10% /a path with blanks"
    return (name, f"path {path}\nruns yes\nsystem {system}\n{head}\n{row}", 0)


CPU_INTEL = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz
stepping\t: 7
flags\t\t: fpu vme"""
CPU_POWER = """processor\t: 0
cpu\t\t: POWER9, altivec supported
clock\t\t: 3800.000000MHz
revision\t: 2.3 (pvr 004e 1203)"""
CPU_ARM = """processor\t: 0
BogoMIPS\t: 200.00
CPU implementer\t: 0x46
CPU part\t: 0x001"""

RIGHTS_USER = """Uid:\t5012\t5012\t5012\t5012
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t000001ffffffffff
CapAmb:\t0000000000000000"""

RECORD_HELP = """
 Usage: perf record [<options>] [<command>]
    or: perf record [<options>] -- <command> [<options>]

    -F, --freq <freq or 'max'>
                          profile at this frequency
    -N, --no-buildid-cache
                          do not update the buildid cache
    -z, --compression-level[=<n>]
                          Compress records using specified level
        --max-size <size> Limit the maximum size of the output file
        --no-bpf-event    do not record bpf events"""
STAT_HELP = "    -j, --json-output     print counts in JSON format"

BUILD_5_14 = """perf version 5.14.0-427.13.1.el9_4.x86_64
                 dwarf: [ on  ]  # HAVE_DWARF_SUPPORT
             libunwind: [ OFF ]  # HAVE_LIBUNWIND_SUPPORT
    libdw-dwarf-unwind: [ on  ]  # HAVE_DWARF_SUPPORT
                  zstd: [ on  ]  # HAVE_ZSTD_SUPPORT"""
BUILD_6_12 = """perf version 6.12.5
                   aio: [ on  ]  # HAVE_AIO_SUPPORT
    dwarf-unwind-support: [ OFF ]  # HAVE_DWARF_UNWIND_SUPPORT
                 libunwind: [ OFF ]  # HAVE_LIBUNWIND_SUPPORT ( tip: Deprecated )
                    zstd: [ OFF ]  # HAVE_ZSTD_SUPPORT"""

COUNTED = """1203987;;cycles:u;1012345;100.00;;
845012;;instructions:u;1012345;100.00;0.70;insn per cycle"""
NOT_ALLOWED = """Error:
Access to performance monitoring and observability operations is limited.
perf_event_paranoid setting is 4:"""

LIST_TEXT = """
List of pre-defined events (to be used in -e or -M):

  branch-instructions OR branches                    [Hardware event]
  cpu-cycles OR cycles                               [Hardware event]

  page-faults OR faults                              [Software event]

frontend:
  dsb2mite_switches.penalty_cycles
       [Decode Stream Buffer (DSB)-to-MITE switch true penalty cycles]
"""
# The second event's description has an unescaped quotation mark.
LIST_JSON = """[
{
\t"Unit": "cpu",
\t"EventName": "branch-instructions",
\t"EventAlias": "branches",
\t"EventType": "Hardware event"
},
{
\t"Unit": "cpu",
\t"EventName": "broken",
\t"EventType": "Kernel PMU event",
\t"BriefDescription": "so "called" here"
},
{
\t"Unit": "cpu",
\t"Topic": "cache",
\t"EventName": "l1d.replacement",
\t"EventType": "Kernel PMU event",
\t"BriefDescription": "Counts the number of cache lines\\nreplaced in L1 data cache"
}
]"""

INTEL_MPI = """Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 20230619 (id: c2e19c2f3e)
Copyright 2003-2023, Intel Corporation."""
INTEL_MPI_2019 = """Intel(R) MPI Library for Linux* OS, Version 2019 Update 2 Build 20190123 (id: e2d820d49)
Copyright 2003-2019, Intel Corporation."""
SPECTRUM = """mpirun (IBM Spectrum MPI) 10.3.1.02rtm0"""
PLATFORM = """mpirun: IBM Platform MPI 09.01.04.03 [9/9/2015] Linux x86-64
mpirun: Copyright (c) 2007-2015"""
OPENMPI_5 = "mpirun (Open MPI) 5.0.5\n\nReport bugs to https://www.open-mpi.org/community/help/"
PRRTE = "mpiexec (PRRTE) 3.0.6"
HYDRA = """HYDRA build details:
    Version:                                 4.1.2
    Release Date:                            Wed Jun  7 15:22:45 CDT 2023
    CC:                              gcc     """

SRUN_20 = """srun: MPI types are...
srun: cray_shasta
srun: none
srun: pmi2
srun: pmix
srun: pmix_v3"""
SRUN_23 = """MPI plugin types are...
\tnone
\tcray_shasta
\tpmi2
\tpmix
specific pmix plugin versions available: pmix_v4,pmix_v5"""
LSF_VERSION = """IBM Spectrum LSF Standard 10.1.0.11, Nov 12 2020
Copyright International Business Machines Corp. 1992, 2016.
US Government Users Restricted Rights - Use, duplication or disclosure restricted by GSA ADP Schedule Contract with IBM Corp.

  binary type: linux3.10-glibc2.17-x86_64"""

RED_HAT = (
    ("host", "login2", 0),
    ("kernel", "5.14.0-427.13.1.el9_4.x86_64", 0),
    ("machine", "x86_64", 0),
    ("os", 'NAME="Red Hat Enterprise Linux"\nPRETTY_NAME="Red Hat Enterprise Linux 9.4 (Plow)"', 0),
    ("cpu", CPU_INTEL, 0),
    ("cpus", "80", 0),
    ("memory", "MemTotal:       197438124 kB", 0),
    ("uid", "5012", 0),
    ("user", "ada", 0),
    ("rights", RIGHTS_USER, 0),
    ("settings", "perf_event_paranoid 2\nkptr_restrict 1\nperf_event_max_sample_rate 100000\nptrace_scope 0", 0),
    ("branches", "branches 32", 0),
    ("modules", "", 0),
    ("perf", "/usr/bin/perf\nperf version 5.14.0-427.13.1.el9_4.x86_64", 0),
    ("build", BUILD_5_14, 0),
    ("record-help", RECORD_HELP, 129),
    ("stat-help", STAT_HELP, 129),
    ("counters", "<not counted>;;cycles", 255),
    ("user-counters", COUNTED, 0),
    ("list-json", "  Error: unknown option `json'\n\n Usage: perf list [<options>]", 129),
    ("list", LIST_TEXT, 0),
    ("capabilities", "", 0),
    place("directory", "/lustre/home/ada/.perfloom", "lustre", 52_428_800),
    ("scratch", "problem sh: 5: TMPDIR: parameter not set or null", 0),
    ("launcher", f"mpirun\n/opt/intel/oneapi/mpi/2021.10.0/bin/mpirun\n{INTEL_MPI}", 0),
    ("launcher", f"mpiexec.hydra\n/opt/intel/oneapi/mpi/2021.10.0/bin/mpiexec.hydra\n{INTEL_MPI}", 0),
    ("srun", SRUN_23, 0),
    ("programs", "\n".join(f"{name} /usr/bin/{name}" for name in ("gzip", "sbatch", "scancel", "sinfo", "squeue")), 0),
    ("slurm", "slurm 23.11.6", 0),
    ("complete", "", 0),
)
"""A login node with Slurm, Intel MPI from a module, and Red Hat's perf."""


def changed(*sections: Section) -> tuple[Section, ...]:
    """RED_HAT with other answers."""
    names = {name for name, _, _ in sections}
    kept = [section for section in RED_HAT if section[0] not in names]
    return (*kept[:-1], *sections, kept[-1])
