"""Compiled programs are kept between test runs: most of the suite's time is XLA's.

They lie in pytest's own cache folder, one folder a JAX version and processor, and go with ``pytest --cache-clear``. JAX
names them by their code, so what changes is compiled anew, and it treats one that it cannot read as missing. A folder
set in ``JAX_COMPILATION_CACHE_DIR`` is used instead; ``-p no:cacheprovider`` switches all of it off.
"""

import hashlib
import platform
from pathlib import Path

import jax


def pytest_configure(config):
    cache = getattr(config, "cache", None)
    if cache is None or jax.config.jax_compilation_cache_dir:
        return
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    known = {line for line in lines if line.startswith(("flags", "Features", "model name"))}
    machine = "\n".join(sorted(known)) or f"{platform.node()} {platform.processor()}"
    name = f"jax-{jax.__version__}-{hashlib.sha256(machine.encode()).hexdigest()[:12]}"
    jax.config.update("jax_compilation_cache_dir", str(cache.mkdir(name)))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
