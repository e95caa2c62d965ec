"""From files to runs: a TOML manifest with its tables, or a single table.

:func:`read_runs` takes either and :func:`read_manifest` a manifest; both give :class:`~cptjax.runs.Runs`, and
:func:`read_planned` a run that nobody has trained yet. All raise an :class:`~cptjax.errors.InputError` of one line that
says where in which file something is wrong. Schedules and phases
turn into plain dicts and back by the four functions that a manifest, too, is read with.
"""

from cptjax.readers.manifest import read_manifest
from cptjax.readers.phases import phase_from_dict, phase_to_dict, schedule_from_dict, schedule_to_dict
from cptjax.readers.plain import read_runs
from cptjax.readers.planned import read_planned

__all__ = [
    "phase_from_dict",
    "phase_to_dict",
    "read_manifest",
    "read_planned",
    "read_runs",
    "schedule_from_dict",
    "schedule_to_dict",
]
