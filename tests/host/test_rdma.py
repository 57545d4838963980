from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Literal

import pytest

from llmgwd.host.network import Management
from llmgwd.host.rdma import RdmaPort, choose_gid_index, find_ports, is_open_to_programs

EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL = "fe80:0000:0000:0000:00fc:00ff:fe00:0001"
IPV6 = "fd00:0000:0000:0000:0000:0000:0000:0001"
ROCE_V1, ROCE_V2 = "IB/RoCE v1", "RoCE v2"

Table = Mapping[int, tuple[str, str, str]]  # index: type, GID, interface


def gid(address: str) -> str:
    """As sysfs writes the GID of an IPv4 address."""
    a, b, c, d = map(int, address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def management(address: str, interface: str, *networks: str) -> Management:
    return Management(address, interface, tuple(map(ip_network, networks)))


ELSEWHERE = management("192.168.0.1", "eno1", "192.168.0.0/24")


def four_gids(address: str, interface: str, first: int = 0) -> Table:
    """What mlx5 has of one interface with one address."""
    return {
        first: (ROCE_V1, LINK_LOCAL, interface),
        first + 1: (ROCE_V2, LINK_LOCAL, interface),
        first + 2: (ROCE_V1, gid(address), interface),
        first + 3: (ROCE_V2, gid(address), interface),
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
    """`empty` are entries of the table that hold nothing: reading type and interface of them fails.

    A file on disk cannot answer EINVAL as sysfs does then; a directory fails with EISDIR in the same place.
    """
    folder = root / device / "ports" / str(port)
    for part in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (folder / part).mkdir(parents=True)
    (folder / "link_layer").write_text(f"{link_layer}\n")
    (folder / "state").write_text(f"{state}\n")
    for index, (kind, text, interface) in table.items():
        (folder / "gids" / str(index)).write_text(f"{text}\n")
        (folder / "gid_attrs/types" / str(index)).write_text(f"{kind}\n")
        if interface:
            (folder / "gid_attrs/ndevs" / str(index)).write_text(f"{interface}\n")
        else:
            (folder / "gid_attrs/ndevs" / str(index)).mkdir()
    for index in empty:
        (folder / "gids" / str(index)).write_text(f"{EMPTY}\n")
        for part in ("types", "ndevs"):
            (folder / "gid_attrs" / part / str(index)).mkdir()


def add_interface(root: Path, device: str, interface: str, dev_port: int = 0) -> None:
    folder = root / device / "device/net" / interface
    folder.mkdir(parents=True)
    (folder / "dev_port").write_text(f"{dev_port}\n")


def chosen(root: Path, where: Management = ELSEWHERE) -> list[tuple[int, str]]:
    return [(port.gid_index, port.interface) for port in find_ports(where, root)]


def test_a_node_without_devices_has_no_ports(tmp_path: Path) -> None:
    assert find_ports(ELSEWHERE, tmp_path / "infiniband") == ()


def test_of_four_gids_the_one_of_roce_v2_and_ipv4_is_it(tmp_path: Path) -> None:
    add_port(tmp_path, "mlx5_0", 1, four_gids("10.99.48.128", "ens1f0np0"), empty=tuple(range(4, 16)))
    assert find_ports(ELSEWHERE, tmp_path) == (
        RdmaPort("mlx5_0", 1, "Ethernet", "ACTIVE", "ens1f0np0", 3, gid("10.99.48.128"), (1, 3)),
    )


def test_a_bond_is_one_device_with_the_bonds_interface(tmp_path: Path) -> None:
    add_port(tmp_path, "mlx5_bond_0", 1, four_gids("10.0.0.1", "bond0"))
    for interface in ("ens1f0np0", "ens1f1np1"):
        add_interface(tmp_path, "mlx5_bond_0", interface)
    assert find_ports(management("10.0.0.1", "bond0", "10.0.0.0/24"), tmp_path) == (
        RdmaPort("mlx5_bond_0", 1, "Ethernet", "ACTIVE", "bond0", 3, gid("10.0.0.1"), (1, 3)),
    )


@pytest.mark.parametrize(
    ("where", "index", "interface"),
    [
        (management("10.1.0.1", "ens1f0", "10.1.0.0/16"), 3, "ens1f0"),
        (management("10.100.0.1", "ens1f0.100", "10.100.0.0/16"), 7, "ens1f0.100"),
        # the management interface is another one in the same network
        (management("10.100.9.9", "eno1", "10.100.0.0/16"), 7, "ens1f0.100"),
        # only the second network of the management interface has an entry
        (management("192.168.0.1", "eno1", "192.168.0.0/24", "10.100.0.0/16"), 7, "ens1f0.100"),
        # the management address is one of IPv6, or of no interface's network
        (management("fd00::1", "ens1f0.100", "fd00::/64"), 7, "ens1f0.100"),
        (ELSEWHERE, 3, "ens1f0"),
        (Management("", ""), 3, "ens1f0"),
    ],
)
def test_of_vlans_the_one_of_the_management_network_is_preferred(
    tmp_path: Path, where: Management, index: int, interface: str
) -> None:
    table = {**four_gids("10.1.0.1", "ens1f0"), **four_gids("10.100.0.1", "ens1f0.100", first=4)}
    add_port(tmp_path, "mlx5_0", 1, table)
    assert chosen(tmp_path, where) == [(index, interface)]


def test_the_management_address_itself_goes_before_others_of_its_network(tmp_path: Path) -> None:
    table = {3: (ROCE_V2, gid("10.0.0.200"), "ens1"), 5: (ROCE_V2, gid("10.0.0.1"), "ens1")}
    add_port(tmp_path, "mlx5_0", 1, table)
    assert chosen(tmp_path, management("10.0.0.1", "ens1", "10.0.0.0/24")) == [(5, "ens1")]
    assert chosen(tmp_path, management("10.0.0.7", "eno1", "10.0.0.0/24")) == [(3, "ens1")]


def test_an_address_that_nobody_gave_is_the_last_choice(tmp_path: Path) -> None:
    nobodys = (ROCE_V2, gid("169.254.1.2"), "ens1")
    add_port(tmp_path, "mlx5_0", 1, {3: nobodys, 5: (ROCE_V2, gid("10.1.0.1"), "ens2")})
    add_port(tmp_path, "mlx5_1", 1, {3: nobodys})
    assert chosen(tmp_path, management("10.0.0.1", "ens1", "10.0.0.0/24")) == [(5, "ens2"), (3, "ens1")]
    by_hand = management("169.254.1.1", "ens1", "169.254.0.0/16")
    assert chosen(tmp_path, by_hand) == [(3, "ens1"), (3, "ens1")]


def test_a_table_of_256_that_is_sparse_is_read_in_numeric_order(tmp_path: Path) -> None:
    table: Table = {
        0: (ROCE_V2, LINK_LOCAL, "ens1f0"),
        9: (ROCE_V2, gid("10.1.0.1"), "bond0"),
        10: (ROCE_V2, gid("10.2.0.1"), "ens1f0.100"),
        255: (ROCE_V2, gid("10.3.0.1"), "ens1f0.200"),
    }
    empty = tuple(index for index in range(256) if index not in table)
    add_port(tmp_path, "rocep1s0f0", 1, table, empty=empty)
    assert find_ports(ELSEWHERE, tmp_path) == (
        RdmaPort("rocep1s0f0", 1, "Ethernet", "ACTIVE", "bond0", 9, gid("10.1.0.1"), (0, 9, 10, 255)),
    )
    assert chosen(tmp_path, management("10.3.0.9", "eno1", "10.3.0.0/24")) == [(255, "ens1f0.200")]


def test_an_empty_table_has_no_index(tmp_path: Path) -> None:
    add_port(tmp_path, "mlx5_0", 1, {}, empty=tuple(range(16)))
    add_interface(tmp_path, "mlx5_0", "ens1")
    assert find_ports(ELSEWHERE, tmp_path) == (RdmaPort("mlx5_0", 1, "Ethernet", "ACTIVE", "ens1", -1, ""),)


def test_a_port_without_an_entry_of_ipv4_has_no_index(tmp_path: Path) -> None:
    table: Table = {
        0: (ROCE_V1, gid("10.0.0.1"), "ens2"),
        1: (ROCE_V2, LINK_LOCAL, "ens2"),
        3: (ROCE_V2, IPV6, "ens2"),
    }
    add_port(tmp_path, "mlx5_0", 1, table, state="1: DOWN", empty=(2,))
    expected = RdmaPort("mlx5_0", 1, "Ethernet", "DOWN", "ens2", -1, "", (1, 3))
    assert find_ports(ELSEWHERE, tmp_path) == (expected,)


def test_an_entry_in_another_network_namespace_names_no_interface(tmp_path: Path) -> None:
    add_port(tmp_path, "mlx5_0", 1, {3: (ROCE_V2, gid("10.0.0.1"), "")})
    assert chosen(tmp_path) == [(3, "")]


def test_infiniband_has_no_index_and_its_interface_from_the_device(tmp_path: Path) -> None:
    add_port(tmp_path, "mlx5_0", 1, {0: (ROCE_V1, LINK_LOCAL, "")}, link_layer="InfiniBand", state="2: INIT")
    add_interface(tmp_path, "mlx5_0", "ibp1s0")
    expected = RdmaPort("mlx5_0", 1, "InfiniBand", "INIT", "ibp1s0", -1, "")
    assert find_ports(ELSEWHERE, tmp_path) == (expected,)


def test_iwarp_has_no_index(tmp_path: Path) -> None:
    folder = tmp_path / "irdma0/ports/1"
    (folder / "gids").mkdir(parents=True)
    (folder / "gids/0").write_text("02fc:0000:0001:0000:0000:0000:0000:0000\n")
    (folder / "link_layer").write_text("Ethernet\n")
    (folder / "state").write_text("4: ACTIVE\n")
    add_interface(tmp_path, "irdma0", "eno1")
    expected = RdmaPort("irdma0", 1, "Ethernet", "ACTIVE", "eno1", -1, "")
    assert find_ports(ELSEWHERE, tmp_path) == (expected,)


def test_devices_and_ports_come_in_numeric_order(tmp_path: Path) -> None:
    for device, port in (("mlx5_10", 1), ("mlx5_2", 2), ("mlx5_2", 1), ("bnxt_re0", 1)):
        add_port(tmp_path, device, port, {})
    places = [port.name for port in find_ports(ELSEWHERE, tmp_path)]
    assert places == ["bnxt_re0 port 1", "mlx5_2 port 1", "mlx5_2 port 2", "mlx5_10 port 1"]


def test_a_device_of_two_ports_tells_its_interfaces_apart(tmp_path: Path) -> None:
    for port in (1, 2, 3):
        add_port(tmp_path, "mlx4_0", port, {}, link_layer="InfiniBand")
    for number, interface in enumerate(("ib7", "ib0")):
        add_interface(tmp_path, "mlx4_0", interface, number)
    assert chosen(tmp_path) == [(-1, "ib7"), (-1, "ib0"), (-1, "")]


def test_what_a_port_does_not_tell_is_empty(tmp_path: Path) -> None:
    (tmp_path / "odd0/ports/1").mkdir(parents=True)
    (tmp_path / "odd0/ports/power").mkdir()
    (tmp_path / "no_ports").mkdir()
    (tmp_path / "abi_version").write_text("1\n")
    assert find_ports(ELSEWHERE, tmp_path) == (RdmaPort("odd0", 1, "", "", "", -1, ""),)


@pytest.mark.parametrize("text", ["", "rubbish", EMPTY, "0000:0000:0000:0000:0000:ffff:0000:0000"])
def test_what_is_no_address_of_ipv4_is_passed_over(tmp_path: Path, text: str) -> None:
    add_port(tmp_path, "mlx5_0", 1, {0: (ROCE_V2, text, "ens1"), 1: (ROCE_V2, gid("10.0.0.1"), "ens1")})
    assert chosen(tmp_path) == [(1, "ens1")]


def test_a_gid_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    add_port(tmp_path, "mlx5_0", 1, four_gids("10.0.0.1", "ens1"))
    file = tmp_path / "mlx5_0/ports/1/gids/3"
    file.unlink()
    file.mkdir()
    assert chosen(tmp_path) == [(-1, "ens1")]


def test_two_devices_that_agree_have_one_index_and_two_that_disagree_none(tmp_path: Path) -> None:
    add_port(tmp_path, "mlx5_0", 1, four_gids("10.0.0.1", "ens1"))
    add_port(tmp_path, "mlx5_1", 1, four_gids("10.0.1.1", "ens2"))
    assert choose_gid_index(find_ports(ELSEWHERE, tmp_path), "auto") == 3
    add_port(tmp_path, "mlx5_2", 1, four_gids("10.0.2.1", "ens3", first=2))
    assert choose_gid_index(find_ports(ELSEWHERE, tmp_path), "auto") == -1


def port(index: int, *, state: str = "ACTIVE") -> RdmaPort:
    return RdmaPort("mlx5_0", 1, "Ethernet", state, "ens1", index, gid("10.0.0.1"), (1, 3, 5))


INFINIBAND = RdmaPort("mlx5_8", 1, "InfiniBand", "ACTIVE", "ib0", -1, "")
IWARP = RdmaPort("irdma0", 1, "Ethernet", "ACTIVE", "eno1", -1, "")


@pytest.mark.parametrize(
    ("ports", "index"),
    [
        ((), -1),
        ((port(3),), 3),
        ((port(3), port(3)), 3),
        ((port(3), port(5)), -1),
        ((port(3), port(-1)), -1),
        ((port(3), port(5, state="DOWN")), 3),
        ((port(3), port(5, state="INIT")), 3),
        ((port(3), INFINIBAND, IWARP), 3),
        ((INFINIBAND,), -1),
        ((IWARP,), -1),
        ((port(3, state="DOWN"),), -1),
        ((port(0),), 0),
    ],
)
def test_one_index_is_chosen_where_all_active_ports_agree(ports: tuple[RdmaPort, ...], index: int) -> None:
    assert choose_gid_index(ports, "auto") == index


@pytest.mark.parametrize(("setting", "index"), [("off", -1), (0, 0), (7, 7)])
def test_the_configuration_has_the_last_word(setting: Literal["off"] | int, index: int) -> None:
    assert choose_gid_index((port(3),), setting) == index


def test_programs_need_a_device_node(tmp_path: Path) -> None:
    assert not is_open_to_programs(tmp_path / "infiniband")
    (tmp_path / "rdma_cm").touch()
    assert not is_open_to_programs(tmp_path)
    (tmp_path / "uverbs0").touch()
    assert is_open_to_programs(tmp_path)
