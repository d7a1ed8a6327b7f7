"""Takes what names a machine or a person out of free text: paths, host and user names, addresses, temporary names.

`scrub` is for logs and reasons, `scrub_json` for JSON texts, value by value. Both leave text that names nothing as it
is, and scrubbing twice changes nothing more. Kernel texts are never scrubbed; `machine_paths` says what one holds.
What goes: absolute paths (the last part stays where it is a file's or a tool's name), this machine's host name and this
user's name as whole words, UUIDs, IP and MAC addresses, names that tempfile and mktemp make up, terminal colours.
"""

from __future__ import annotations

import functools
import json
import os
import pwd
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# fmt: off
GENERIC = frozenset((
    "root", "user", "users", "admin", "administrator", "nobody", "guest", "ubuntu", "debian", "fedora", "centos",
    "docker", "podman", "runner", "build", "builder", "ci", "test", "tester", "dev", "developer", "vagrant",
    "vscode", "jovyan", "work", "worker", "node", "host", "localhost", "localdomain", "local", "home", "server",
    "cloud", "gpu", "cpu", "cuda", "nvidia", "intel", "amd", "opencl", "pocl", "kernel", "klineage", "linux",
    "main", "path", "tmp", "uuid", "address", "null", "none", "true", "false",
))
# fmt: on
"""Names that say nothing of whose machine it is, some of them words of every log, or of our own marks."""

_PART = r"[^\s/\\\"'`<>|:;,()\[\]{}*?$]+"
_SYSTEM = frozenset(("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "opt", "proc", "run", "sbin", "sys", "usr"))
_HOMES = frozenset(("home", "Users"))
_PERSONAL = r"(?:home|Users|root|tmp|scratch)"
_SHARED = frozenset(
    ("root", "tmp", "scratch", "var", "mnt", "media", "srv", "work", "workspace", "private", "nfs", "lustre", "data")
)
_KNOWN_ROOTS = _SYSTEM | _HOMES | _SHARED

_COLOUR = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_QUOTED = r"(?<=(?P<quote>[\"'`]))/(?:[^\"'`\n/]+/+)+[^\"'`\n/]*(?=(?P=quote))"
_FILE_URL = rf"file:/+{_PART}(?:/+{_PART})*/*"
_PERSONAL_PATH = rf"(?<!>)/{_PERSONAL}(?:/+{_PART})+/*"
"""Also right after a word, as in `-isystem/home/...`."""
_ABSOLUTE = rf"(?:(?<![\w.>/~)\]}}])|(?<=\s-[A-Za-z]))/{_PART}(?:/+{_PART})+/*"
"""Two parts or more: `a /b` is a quotient. What follows `~`, `.` or a word is a relative path."""
_WINDOWS = r"(?<!\w)[A-Za-z]:\\Users\\[^\s\"'`<>|:*?]+"
"""No other folder: `"%d:\\n"` is no path."""
_INCLUDE = r"(?<=<)/[^<>\n]+(?=>)"

_HEX = "[0-9a-fA-F]"
_UUID = re.compile(rf"(?<![0-9A-Za-z]){_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}(?![0-9A-Za-z])")
_TEMPORARY = re.compile(r"(?<!\w)tmp(?:(?=[a-z_]*[0-9])[a-z0-9_]{8}|\.[A-Za-z0-9]{6,12})(?!\w)")
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IPV4 = re.compile(rf"(?<![\w.-])(?<!==)(?<!ersion )(?:{_OCTET}\.){{3}}{_OCTET}(?!\.?\w)")
"""Not after `-`, `==` or `version `: versions have four parts too."""
_ADDRESS = re.compile(
    rf"(?<![\w:.])(?:(?:{_HEX}{{2}}:){{5}}{_HEX}{{2}}|(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}"
    rf"|(?:fe80|f[cd]{_HEX}{{2}})(?::{_HEX}{{1,4}})*::(?:{_HEX}{{1,4}}:)*{_HEX}{{1,4}})(?![\w:])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Machine:
    """What names a machine and its user."""

    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    """Home directories: absolute paths."""

    @functools.cached_property
    def paths(self) -> re.Pattern[str]:
        """Every path that is scrubbed."""
        return re.compile("|".join((*self._homes(), _QUOTED, _FILE_URL, _PERSONAL_PATH, _ABSOLUTE, _WINDOWS)))

    @functools.cached_property
    def source_paths(self) -> re.Pattern[str]:
        """The same in source code, which has `#include <...>` and quotients."""
        return re.compile("|".join((*self._homes(), _QUOTED, _INCLUDE, _FILE_URL, _ABSOLUTE, _WINDOWS)))

    @functools.cached_property
    def words(self) -> re.Pattern[str] | None:
        """Host and user names as whole words; None where all are short or generic."""
        alternatives = [
            f"(?P<{group}>{'|'.join(re.escape(name) for name in sorted(telling, key=len, reverse=True))})"
            for group, names in (("host", self.hosts), ("user", self.users))
            if (telling := {name for name in names if _telling(name)})
        ]
        if not alternatives:
            return None
        return re.compile(rf"(?<![^\W_])(?:{'|'.join(alternatives)})(?![^\W_])", re.IGNORECASE)

    def _homes(self) -> Iterator[str]:
        for home in self.homes:
            if home.startswith("/") and len(home.strip("/")) > 0:
                yield rf"(?<![\w.>/]){re.escape(home.rstrip('/'))}(?![\w.-])(?:/+{_PART})*/*"


@functools.cache
def this_machine() -> Machine:
    """The machine and user that this process runs as."""
    node = os.uname().nodename
    users = {os.environ.get(name, "") for name in ("LOGNAME", "USER", "SUDO_USER")}
    homes = {os.environ.get("HOME", "")}
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:  # a container may run as a user that has no entry
        pass
    else:
        users.add(entry.pw_name)
        homes.add(entry.pw_dir)
    users |= {Path(home).name for home in homes}
    hosts = {node, node.partition(".")[0], os.environ.get("HOSTNAME", "")}
    return Machine(tuple(sorted(hosts - {""})), tuple(sorted(users - {""})), tuple(sorted(homes - {""})))


def scrub(text: str, machine: Machine | None = None) -> str:
    """The text without what names a machine or a person; also valid UTF-8, so that it can be stored."""
    return _IPV4.sub("<address>", _scrub(text, machine or this_machine()))


def scrub_json(text: str, machine: Machine | None = None) -> str:
    """A JSON text in canonical form, each string in it scrubbed, except for dotted quads: versions look like them.

    Raises ValueError where the text is not JSON.
    """
    value = _scrub_value(json.loads(text), machine or this_machine())
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def scrub_paths(text: str, machine: Machine | None = None) -> str:
    """Only the paths: what a reader on another machine can still check."""
    paths = (machine or this_machine()).paths
    while True:  # what is left of one path may end another; each round leaves fewer slashes
        shortened = paths.sub(_shortened, text)
        if shortened == text:
            return text
        text = shortened


def machine_paths(source: str, machine: Machine | None = None) -> tuple[str, ...]:
    """The paths of a machine in source code, where a lone `x /a/b` is a quotient and no path."""
    found = (machine or this_machine()).source_paths.finditer(source)
    return tuple(match[0] for match in found if _surely(match, source))


def _scrub(text: str, machine: Machine) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = _COLOUR.sub("", text).replace("\x1b", "")
    text = scrub_paths(text, machine)
    if machine.words is not None:
        text = machine.words.sub(lambda found: f"<{found.lastgroup}>", text)
    text = _UUID.sub("<uuid>", text)
    text = _TEMPORARY.sub("<tmp>", text)
    return _ADDRESS.sub("<address>", text)


def _scrub_value(value: object, machine: Machine) -> object:
    match value:
        case str():
            return _scrub(value, machine)
        case list():
            return [_scrub_value(item, machine) for item in value]
        case dict():
            return {_scrub(key, machine): _scrub_value(item, machine) for key, item in value.items()}
        case _:
            return value


def _shortened(found: re.Match[str]) -> str:
    parts = [part for part in re.split(r"[/\\]+", found[0].removeprefix("file:")) if part]
    first, last = parts[0], parts[-1]
    if found[0].endswith("/") or (first in _HOMES and len(parts) < 3) or len(parts) < 2:
        return "<path>"
    is_file = re.search(r"\.[A-Za-z][A-Za-z0-9]{0,4}$", last) is not None
    return f"<path>/{last}" if is_file or first in _SYSTEM or len(parts) > 3 else "<path>"


def _surely(found: re.Match[str], source: str) -> bool:
    path = found[0]
    if not path.startswith("/") or (found.start() > 0 and source[found.start() - 1] in "\"'`<"):
        return True
    parts = [part for part in path.split("/") if part]
    return parts[0] in _KNOWN_ROOTS or len(parts) > 2


def _telling(name: str) -> bool:
    return len(name) > 2 and name.lower() not in GENERIC and not name.isdigit()
