from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pytest

from llmgwd.host.rdma import RdmaPort, choose_gid_index, find_ports

EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL = "fe80:0000:0000:0000:00fc:00ff:fe00:0001"
IPV4 = "0000:0000:0000:0000:0000:ffff:0a63:3080"
OTHER_IPV4 = "0000:0000:0000:0000:0000:ffff:0a63:3081"
AUTO_IPV4 = "0000:0000:0000:0000:0000:ffff:a9fe:0102"

Table = Mapping[int, tuple[str, str, str]]  # index: type, GID, interface

# A common table of mlx5 with one IPv4 address.
MLX5: Table = {
    0: ("IB/RoCE v1", LINK_LOCAL, "ens1f0np0"),
    1: ("RoCE v2", LINK_LOCAL, "ens1f0np0"),
    2: ("IB/RoCE v1", IPV4, "ens1f0np0"),
    3: ("RoCE v2", IPV4, "ens1f0np0"),
}


def add_port(
    root: Path,
    device: str,
    port: int,
    table: Table,
    *,
    link_layer: str = "Ethernet",
    state: str = "4: ACTIVE",
    empty: tuple[int, ...] = (),
) -> None:
    """`empty` are entries of the table that hold nothing: reading them fails."""
    folder = root / device / "ports" / str(port)
    for part in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (folder / part).mkdir(parents=True)
    (folder / "link_layer").write_text(f"{link_layer}\n")
    (folder / "state").write_text(f"{state}\n")
    for index, (kind, gid, interface) in table.items():
        (folder / "gids" / str(index)).write_text(f"{gid}\n")
        (folder / "gid_attrs/types" / str(index)).write_text(f"{kind}\n")
        if interface:
            (folder / "gid_attrs/ndevs" / str(index)).write_text(f"{interface}\n")
    for index in empty:
        (folder / "gids" / str(index)).write_text(f"{EMPTY}\n")
        for part in ("types", "ndevs"):
            # A directory: open succeeds for it as for such an entry, read fails.
            (folder / "gid_attrs" / part / str(index)).mkdir()


def test_a_node_without_devices_has_no_ports(tmp_path: Path) -> None:
    assert find_ports(tmp_path / "infiniband") == ()


def test_the_entry_of_roce_v2_and_ipv4_is_the_one(tmp_path: Path) -> None:
    add_port(tmp_path, "mlx5_0", 1, MLX5, empty=tuple(range(4, 16)))
    assert find_ports(tmp_path) == (RdmaPort("mlx5_0", 1, "Ethernet", "ACTIVE", "ens1f0np0", 3, IPV4),)


def test_a_sparse_table_is_read_in_numeric_order(tmp_path: Path) -> None:
    table: Table = {
        10: ("RoCE v2", IPV4, "ens1f0.100"),
        9: ("RoCE v2", OTHER_IPV4, "bond0"),
        200: ("RoCE v2", IPV4, "ens1f0.100"),
        0: ("RoCE v2", LINK_LOCAL, "ens1f0"),
    }
    add_port(tmp_path, "rocep1s0f0", 1, table, empty=(1, 2, 11))
    expected = RdmaPort("rocep1s0f0", 1, "Ethernet", "ACTIVE", "bond0", 9, OTHER_IPV4)
    assert find_ports(tmp_path) == (expected,)


def test_an_address_that_nobody_gave_it_is_the_last_choice(tmp_path: Path) -> None:
    auto = ("RoCE v2", AUTO_IPV4, "ens1")
    add_port(tmp_path, "mlx5_0", 1, {3: auto, 5: ("RoCE v2", IPV4, "ens1")})
    add_port(tmp_path, "mlx5_1", 1, {3: auto})
    assert [(port.gid_index, port.gid) for port in find_ports(tmp_path)] == [(5, IPV4), (3, AUTO_IPV4)]


def test_devices_and_ports_come_in_numeric_order(tmp_path: Path) -> None:
    for device, port in (("mlx5_10", 1), ("mlx5_2", 2), ("mlx5_2", 1), ("bnxt_re0", 1)):
        add_port(tmp_path, device, port, {})
    places = [(port.device, port.port) for port in find_ports(tmp_path)]
    assert places == [("bnxt_re0", 1), ("mlx5_2", 1), ("mlx5_2", 2), ("mlx5_10", 1)]


def test_a_port_without_such_an_entry_has_no_index(tmp_path: Path) -> None:
    table: Table = {0: ("IB/RoCE v1", IPV4, "ens2"), 1: ("RoCE v2", LINK_LOCAL, "ens2")}
    add_port(tmp_path, "mlx5_0", 1, table, state="1: DOWN", empty=(2,))
    assert find_ports(tmp_path) == (RdmaPort("mlx5_0", 1, "Ethernet", "DOWN", "ens2", -1, ""),)


def test_infiniband_has_its_interface_from_the_device(tmp_path: Path) -> None:
    table: Table = {0: ("IB/RoCE v1", LINK_LOCAL, "")}
    add_port(tmp_path, "mlx5_0", 1, table, link_layer="InfiniBand", state="2: INIT")
    (tmp_path / "mlx5_0/device/net/ibp1s0").mkdir(parents=True)
    assert find_ports(tmp_path) == (RdmaPort("mlx5_0", 1, "InfiniBand", "INIT", "ibp1s0", -1, ""),)


def test_a_device_of_two_ports_tells_its_interfaces_apart(tmp_path: Path) -> None:
    for port in (1, 2, 3):
        add_port(tmp_path, "mlx4_0", port, {}, link_layer="InfiniBand")
    for number, interface in enumerate(("ib7", "ib0")):
        folder = tmp_path / "mlx4_0/device/net" / interface
        folder.mkdir(parents=True)
        (folder / "dev_port").write_text(f"{number}\n")
    assert [port.interface for port in find_ports(tmp_path)] == ["ib7", "ib0", ""]


def test_what_a_port_does_not_tell_is_empty(tmp_path: Path) -> None:
    (tmp_path / "odd0/ports/1").mkdir(parents=True)
    (tmp_path / "odd0/ports/power").mkdir()
    (tmp_path / "no_ports").mkdir()
    (tmp_path / "abi_version").write_text("1\n")
    assert find_ports(tmp_path) == (RdmaPort("odd0", 1, "", "", "", -1, ""),)


@pytest.mark.parametrize("gid", ["", "rubbish", EMPTY, "0000:0000:0000:0000:0000:ffff:0000:0000"])
def test_what_is_no_address_of_ipv4_is_passed_over(tmp_path: Path, gid: str) -> None:
    add_port(tmp_path, "mlx5_0", 1, {0: ("RoCE v2", gid, "ens1"), 1: ("RoCE v2", IPV4, "ens1")})
    assert [port.gid_index for port in find_ports(tmp_path)] == [1]


def port(index: int, *, link_layer: str = "Ethernet", state: str = "ACTIVE") -> RdmaPort:
    return RdmaPort("mlx5_0", 1, link_layer, state, "ens1", index, IPV4 if index >= 0 else "")


@pytest.mark.parametrize(
    ("ports", "index"),
    [
        ((), -1),
        ((port(3),), 3),
        ((port(3), port(3)), 3),
        ((port(3), port(5)), -1),
        ((port(3), port(-1)), -1),
        ((port(3), port(5, state="DOWN")), 3),
        ((port(3), port(-1, link_layer="InfiniBand")), 3),
        ((port(-1, link_layer="InfiniBand"),), -1),
        ((port(3, state="DOWN"),), -1),
        ((port(0),), 0),
    ],
)
def test_one_index_is_chosen_where_all_active_ports_agree(ports: tuple[RdmaPort, ...], index: int) -> None:
    assert choose_gid_index(ports, "auto") == index


@pytest.mark.parametrize(("setting", "index"), [("off", -1), (0, 0), (7, 7)])
def test_the_configuration_has_the_last_word(setting: Literal["off"] | int, index: int) -> None:
    assert choose_gid_index((port(3),), setting) == index
