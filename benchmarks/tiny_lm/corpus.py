"""Text from Debian packages: three training corpora and eight validation sets.

A continual-pre-training experiment needs a corpus the model grew up on (D_pt), corpora it moves to
(D_cpt), and text it never sees (out of domain). Debian's archive has all three, in packages that
any machine with ``apt-get`` can download without installing them:

- ``pt``: English prose, the definitions of the GCIDE dictionary and of WordNet;
- ``code``: the Python standard library, a strong shift from prose;
- ``foldoc``: the Free On-line Dictionary of Computing, a weaker shift: prose of another subject;
- ``ood_bible`` (the King James Bible), ``ood_man`` (manual pages), ``ood_perl`` (Perl's
  documentation), ``ood_c`` (C headers) and ``ood_fortune`` (quotations): only ever evaluated.

The King James Bible looks like a weak shift and is none: as a CPT corpus it made these models
forget more than Python code did (D_pt loss +.94 against +.71 nats after 1,500 steps).

Every corpus is bytes, kept to ASCII, cut into training and validation text that share no file (or,
for the running texts, no 16 kB block). The validation *sample*, a fixed draw of sequences, is the
same for all runs: its sampling error is shared by all curves, so differences are cleaner than
levels.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .model import CONTEXT

__all__ = [
    "CORPORA",
    "TRAINING_SETS",
    "VALIDATION_SEED",
    "VALIDATION_SETS",
    "Corpora",
    "load_corpora",
]

BLOCK = 16_384  # bytes; running text is split block by block
VALIDATION_SEED = 20_260


@dataclass(frozen=True)
class Corpus:
    """One text: its packages, its licence, and how to read documents out of them."""

    name: str
    packages: tuple[str, ...]  # name=version, the versions that the shipped curves were made from
    licence: str
    about: str
    documents: Callable[[Path], Iterator[str]]
    sequences: int  # validation sequences
    train: bool = False


# --- one reader a corpus -------------------------------------------------------------------------


def _gcide(root: Path) -> Iterator[str]:
    """Dictionary entries on one line each, without pronunciation, source tags and link braces."""
    text = gzip.decompress((root / "usr/share/dictd/gcide.dict.dz").read_bytes()).decode("latin-1")
    text = text[text.index("\nA \\") :] if "\nA \\" in text else text
    for entry in re.split(r"\n(?=\S)", text):
        entry = re.sub(r"\[(?:1913 Webster|PJC|WordNet[^\]]*|Webster[^\]]*|RP|GG)[^\]]*\]", "", entry)
        entry = re.sub(r"\\[^\\\n]*\\,?", "", entry)
        entry = re.sub(r"[{}]", "", entry)
        entry = re.sub(r"\s+", " ", entry).strip()
        if len(entry) >= 40:
            yield entry + "\n"


def _wordnet(root: Path) -> Iterator[str]:
    """``words: gloss`` lines, the words of each synset and their definition with its examples."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (root / f"usr/share/wordnet/data.{part}").read_text("latin-1").splitlines():
            if line.startswith(" ") or " | " not in line:
                continue
            fields, gloss = line.split(" | ", 1)
            items = fields.split(" ")
            words = [items[4 + 2 * i].replace("_", " ") for i in range(int(items[3], 16))]
            yield f"{', '.join(words)}: {gloss.strip()}\n"


def _foldoc(root: Path) -> Iterator[str]:
    """Entries on one line each, without link braces."""
    packed = (root / "usr/share/dictd/foldoc.dict.dz").read_bytes()
    for entry in re.split(r"\n(?=\S)", gzip.decompress(packed).decode("utf-8", errors="ignore")):
        entry = re.sub(r"\s+", " ", re.sub(r"[{}]", "", entry)).strip()
        if len(entry) >= 40 and not entry.startswith("00-database"):
            yield entry + "\n"


def _bible(root: Path) -> Iterator[str]:
    """The verses, printed by the package's own reader (its archive has a format of its own)."""
    command = [str(root / "usr/bin/bible"), "-p", f"{root}/usr/lib/", "-f", "gen1:1-rev22:21"]
    printed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    for line in printed.stdout.decode("latin-1").splitlines():
        if line.strip():
            yield re.sub(r"^\S+ ", "", line) + "\n"


def _python(root: Path) -> Iterator[str]:
    """Modules of the standard library, without character tables and the data of ``pydoc``."""
    skip = re.compile(r"/(encodings|pydoc_data|__pycache__)/|_sysconfigdata")
    for path in sorted((root / "usr/lib").rglob("*.py")):
        if path.is_file() and not skip.search(str(path)):
            yield path.read_text("utf-8", errors="ignore")


def _manual(root: Path) -> Iterator[str]:
    """Manual pages in roff, without their comments (copyright notices)."""
    for path in sorted((root / "usr/share/man").glob("man*/*.gz")):
        text = gzip.decompress(path.read_bytes()).decode("utf-8", errors="ignore")
        lines = [x for x in text.splitlines() if not x.startswith(('.\\"', "'\\\"", ".so "))]
        if len(lines) > 10:
            yield "\n".join(lines) + "\n"


def _perl(root: Path) -> Iterator[str]:
    """Perl's guides in POD markup."""
    for path in sorted((root / "usr/share/perl").rglob("perl*.pod")):
        if path.is_file():
            yield path.read_text("utf-8", errors="ignore")


def _headers(root: Path) -> Iterator[str]:
    """Kernel headers."""
    for path in sorted((root / "usr/include").rglob("*.h")):
        yield path.read_text("utf-8", errors="ignore")


def _fortunes(root: Path) -> Iterator[str]:
    """Quotations, one file a document."""
    for path in sorted((root / "usr/share/games/fortunes").iterdir()):
        if path.is_file() and not path.is_symlink() and path.suffix == "":
            yield path.read_text("utf-8", errors="ignore").replace("\n%\n", "\n\n")


def _prose(root: Path) -> Iterator[str]:
    """GCIDE and WordNet in turn, 8 kB of each, so that every block holds the same mixture."""
    parts = ["".join(_gcide(root)), "".join(_wordnet(root))]
    for start in range(0, min(map(len, parts)), BLOCK // 2):
        for part in parts:
            yield part[start : start + BLOCK // 2]


CORPORA = (
    Corpus(
        "pt",
        ("dict-gcide=0.48.5+nmu2", "wordnet-base=1:3.0-37"),
        "GCIDE: GPL-2+; WordNet: WordNet 3.0 licence (free use with notice)",
        "definitions of the Collaborative International Dictionary of English and of WordNet 3.0",
        _prose,
        sequences=256,
        train=True,
    ),
    Corpus(
        "code",
        ("libpython3.11-stdlib=3.11.2-6+deb12u8", "libpython3.11-minimal=3.11.2-6+deb12u8"),
        "PSF licence version 2",
        "source of the Python 3.11 standard library (strong shift)",
        _python,
        sequences=256,
        train=True,
    ),
    Corpus(
        "foldoc",
        ("dict-foldoc=20230119-1",),
        "GFDL 1.2 or later",
        "Free On-line Dictionary of Computing (weak shift)",
        _foldoc,
        sequences=256,
        train=True,
    ),
    Corpus(
        "ood_bible",
        ("bible-kjv=4.38", "bible-kjv-text=4.38"),
        "public domain text (1611); the reader program GPL-2+",
        "King James Bible, verses without their numbers",
        _bible,
        sequences=128,
    ),
    Corpus(
        "ood_man",
        ("manpages=6.03-2", "manpages-dev=6.03-2"),
        "per page: GPL-2+, BSD and Linux man-pages licences",
        "manual pages of Linux in roff markup",
        _manual,
        sequences=128,
    ),
    Corpus(
        "ood_perl",
        ("perl-doc=5.36.0-7+deb12u4",),
        "GPL-1+ or Artistic",
        "Perl's guides in POD markup",
        _perl,
        sequences=128,
    ),
    Corpus(
        "ood_c",
        ("linux-libc-dev=6.1.192-3",),
        "GPL-2 with the Linux syscall note",
        "C headers of the Linux kernel",
        _headers,
        sequences=128,
    ),
    Corpus(
        "ood_fortune",
        ("fortunes=1:1.99.1-7.3",),
        "BSD; quotations by many authors, see the package's copyright file",
        "quotations of the fortune program",
        _fortunes,
        sequences=128,
    ),
)
TRAINING_SETS = tuple(corpus.name for corpus in CORPORA if corpus.train)
VALIDATION_SETS = tuple(corpus.name for corpus in CORPORA)


# --- download, split, sample ---------------------------------------------------------------------


@dataclass(frozen=True)
class Corpora:
    """Texts ready for use: byte arrays to train on, sampled sequences to validate on.

    Attributes:
        train: bytes of each training corpus.
        validation: bytes of each validation set, ``(sequences, CONTEXT + 1)``.
        facts: what the data card says of each corpus: packages, licence, sizes, checksum.
    """

    train: dict[str, np.ndarray]
    validation: dict[str, np.ndarray]
    facts: dict[str, dict[str, object]]


def _download(package: str, folder: Path) -> Path:
    """Fetch one ``name=version``; where the archive has moved on, the version that it offers."""
    name = package.split("=")[0]
    kept = sorted(folder.glob(f"{name}_*.deb"))
    if not kept:
        ask = ["apt-get", "download"]
        if subprocess.run([*ask, package], cwd=folder, capture_output=True).returncode:
            print(f"warning: the archive no longer has {package} (try apt-get update): its present version is taken")
            subprocess.run([*ask, name], cwd=folder, check=True)
        kept = sorted(folder.glob(f"{name}_*.deb"))
    return kept[0]


def _fetch(packages: tuple[str, ...], cache: Path) -> Path:
    """Download packages and unpack them side by side into one folder; nothing is installed."""
    names = [package.split("=")[0] for package in packages]
    root = cache / "-".join(names)
    if not (root / "versions.json").exists():
        debs = cache / "debs"
        debs.mkdir(parents=True, exist_ok=True)
        root.mkdir(exist_ok=True)
        versions = {}
        for name, package in zip(names, packages, strict=True):
            deb = _download(package, debs)
            subprocess.run(["dpkg-deb", "-x", str(deb), str(root)], check=True)
            show = ["dpkg-deb", "-f", str(deb), "Version"]
            versions[name] = subprocess.check_output(show, text=True).strip()
        (root / "versions.json").write_text(json.dumps(versions))
    return root


def _ascii(text: str) -> bytes:
    """Printable ASCII, tab and newline only: rare bytes would cost the model, not teach it."""
    return re.sub(rb"[^\t\n\x20-\x7e]", b"", text.encode("ascii", errors="ignore"))


def _split(corpus: Corpus, root: Path) -> tuple[bytes, bytes]:
    """Training and validation text; one document (of running text: block) in sixteen is held out.

    Corpora that are never trained on are validation text from end to end.
    """
    documents = [_ascii(document) for document in corpus.documents(root)]
    if corpus.name in ("pt", "foldoc"):
        running = b"".join(documents)
        documents = [running[i : i + BLOCK] for i in range(0, len(running), BLOCK)]
    elif not corpus.train:
        return b"", b"".join(documents)
    order = np.random.default_rng([VALIDATION_SEED, 1]).permutation(len(documents))
    held_out = set(order[: max(1, len(documents) // 16)].tolist())
    train = b"".join(x for i, x in enumerate(documents) if i not in held_out)
    validation = b"".join(x for i, x in enumerate(documents) if i in held_out)
    return train, validation


def load_corpora(cache: Path) -> Corpora:
    """Fetch (once), split and sample all texts.

    Args:
        cache: folder for packages; nothing is written outside it.
    """
    train, validation, facts = {}, {}, {}
    for index, corpus in enumerate(CORPORA):
        root = _fetch(corpus.packages, cache)
        training_text, held_out = _split(corpus, root)
        if corpus.train:
            train[corpus.name] = np.frombuffer(training_text, np.uint8)
        text = np.frombuffer(held_out, np.uint8)
        rng = np.random.default_rng([VALIDATION_SEED, 2, index])
        starts = np.sort(rng.integers(0, len(text) - CONTEXT - 1, corpus.sequences))
        validation[corpus.name] = text[starts[:, None] + np.arange(CONTEXT + 1)]
        facts[corpus.name] = {
            "about": corpus.about,
            "licence": corpus.licence,
            "packages": json.loads((root / "versions.json").read_text()),
            "train_bytes": len(training_text),
            "validation_bytes": len(held_out),
            "sequences": corpus.sequences,
            "sha256": hashlib.sha256(training_text + held_out).hexdigest()[:16],
        }
    return Corpora(train, validation, facts)
