"""Packages that are what they were, or are refused; from a directory instead of an index."""

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from tests.real import virtual_environment
from tests.real.packages import Package, PackageError, install, install_all

FILES = {
    "example/bin/program": "#!/bin/sh\n",
    "example-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: example\nVersion: 1.0\n",
    "example-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The hash of a wheel that pip finds without any index."""
    path = tmp_path / "index/example-1.0-py3-none-any.whl"
    path.parent.mkdir()
    record = "example-1.0.dist-info/RECORD"
    with zipfile.ZipFile(path, "w") as archive:
        lines = [f"{record},,"]
        for name, text in FILES.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(text)}")
        archive.writestr(record, "\n".join(lines))
    for name in ("PIP_CONFIG_FILE", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_package_is_unpacked_with_its_programs(tmp_path: Path, wheel: str) -> None:
    install(Package("example", "1.0", ("0" * 64, wheel)), tmp_path / "target")
    program = tmp_path / "target/example/bin/program"
    assert (program.read_text(), program.stat().st_mode & 0o100) == ("#!/bin/sh\n", 0o100)


def test_a_package_with_another_hash_is_refused(tmp_path: Path, wheel: str) -> None:
    with pytest.raises(PackageError, match=r"^pip install example: ERROR: .*DO NOT MATCH THE HASHES"):
        install(Package("example", "1.0", ("0" * 64,)), tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_package_is_asked_for_with_every_hash_that_it_may_have() -> None:
    package = Package("example", "1.0", ("aa", "bb"))
    assert (package.directory, package.requirement) == (
        "example-1.0",
        "example==1.0 --hash=sha256:aa --hash=sha256:bb",
    )


def test_a_file_of_packages_goes_into_an_environment(tmp_path: Path, wheel: str) -> None:
    pins = tmp_path / "example.txt"
    pins.write_text(
        f"# What it is for.\nexample==1.0 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{wheel}\n"
    )
    install_all(pins, virtual_environment.make(tmp_path / "environment"))
    (program,) = tmp_path.glob("environment/lib/python3*/site-packages/example/bin/program")
    assert program.read_text() == "#!/bin/sh\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"example==1.0 --hash=sha256:{'0' * 64}", "DO NOT MATCH THE HASHES"),
        ("example==1.0", "require-hashes"),
    ],
)
def test_a_file_of_packages_is_refused_with_a_wrong_hash_or_without_one(
    tmp_path: Path, wheel: str, line: str, said: str
) -> None:
    pins = tmp_path / "example.txt"
    pins.write_text(f"{line}\n")
    with pytest.raises(PackageError, match=rf"^pip install example: ERROR: .*{said}"):
        install_all(pins, virtual_environment.make(tmp_path / "environment"))
    assert [*tmp_path.glob("environment/lib/python3*/site-packages/*")] == []
