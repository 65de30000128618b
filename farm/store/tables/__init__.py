"""Every table, one module per noun. Facts only: what can be computed (availability, a run's progress) is not stored.

Times are UTC. Text that may be long (logs, traces, dumps) is never in a row: it is an artifact, a file addressed by
hash. JSON columns hold small, bounded structures. Rows about a device carry the lease token of who wrote them.
"""

from farm.store.base import Base, UtcDateTime
from farm.store.tables.clusters import Cluster, Signature
from farm.store.tables.content import Artifact, Bundle, SuitePack
from farm.store.tables.fleet import Alert, Device, DeviceEvent, DeviceNote, Fingerprint, Hold, Host
from farm.store.tables.people import Audit, PendingLogin, Team, Token, User
from farm.store.tables.results import Incident, JournalMark, Measurement, SeriesAbsence, SeriesChunk, Stage, Test
from farm.store.tables.system import Change, Setting
from farm.store.tables.work import Attempt, AttemptPhase, Duration, Job, Lease, Reservation, Run

__all__ = [
    "Alert",
    "Artifact",
    "Attempt",
    "AttemptPhase",
    "Audit",
    "Base",
    "Bundle",
    "Change",
    "Cluster",
    "Device",
    "DeviceEvent",
    "DeviceNote",
    "Duration",
    "Fingerprint",
    "Hold",
    "Host",
    "Incident",
    "Job",
    "JournalMark",
    "Lease",
    "Measurement",
    "PendingLogin",
    "Reservation",
    "Run",
    "SeriesAbsence",
    "SeriesChunk",
    "Setting",
    "Signature",
    "Stage",
    "SuitePack",
    "Team",
    "Test",
    "Token",
    "User",
    "UtcDateTime",
]
