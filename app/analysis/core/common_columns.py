"""Columns that several tables have."""

from .schema import Column

EVENT = Column("event", "", "The measured event.")
UNIT = Column("unit", "", "The unit of value: count, ns or bytes.")
HOST = Column("host", "", "The host, if the recording names it.")
MPI_RANK = Column("rank", "", "The MPI rank; missing without ranks.", "Int64")
RUN = Column("run", "", "Execution of the command, from 0.", "Int64")
SAMPLES = Column("samples", "", "Number of samples.", "int64")
DEVIATION = Column(
    "deviation_percent",
    "%",
    "For a count that perf stat repeated: standard deviation of the mean, in percent of the mean.",
    "Float64",
)

RANK = Column("rank", "", "The rank; missing without ranks.", "Int64")
RANK_IF_SEVERAL = Column("rank", "", "The rank, if there are several.", "Int64")
DEVICE_NUMBER = Column("device", "", "Number of the device in its process.", "Int64")
DEVICE_NAME = Column("device", "", "GPU and its number, or CPU; memory if the file does not name it.")
DEVICE_MEMORY = Column("memory_bytes", "bytes", "Memory of the device.", "Int64")
OPERATOR_CALLS = Column("calls", "", "Number of calls.", "int64")
OPERATOR_KIND = Column("kind", "", "operator or annotation.")
KERNEL = Column("name", "", "The kernel.")
REPORT_LAUNCH = Column("launch", "", "Its ID in the report.", "int64")
