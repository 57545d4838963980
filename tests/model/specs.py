"""Material for tests of the spec: defaults of two engines, strategies for valid specs and for anything."""

from dataclasses import replace

from hypothesis import strategies as st

from llmgwd.model.spec import Defaults

VLLM = Defaults(
    port=8000,
    health_path="/health",
    executable="vllm",
    user="llmgw",
    group="",
    working_directory="/var/lib/llmgw",
    stop_timeout_s=60.0,
    rendezvous_timeout_s=300.0,
    takes_model=True,
    takes_args=True,
)
COMMAND = replace(VLLM, port=0, health_path="", executable="", takes_model=False, takes_args=False)

DEFAULTS = {"vllm": VLLM, "command": COMMAND}

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
WORDS = st.from_regex(r"[a-z_][a-z0-9_]{0,15}", fullmatch=True)
PATHS = st.builds("/".__add__, LINES)
PROGRAMS = st.one_of(PATHS, WORDS)
PORTS = st.integers(1, 65_535)
ADDRESSES = st.one_of(
    st.ip_addresses().map(str), st.from_regex(r"[a-z][a-z0-9]{0,8}(\.[a-z]{2,3}){0,2}", fullmatch=True)
)
PEERS = st.sampled_from(["[fd00::2]:50052", "[fe80::2%eth0]", "node-2:50052"])
TIMES = st.one_of(st.integers(0, 10**9), st.floats(0, 1e9))
AMOUNTS = st.integers(1, 2**63 - 1)
RANKS = st.integers(1, 65_536)
NUMBERS = st.sampled_from(["0", "0-15,32", "7-7", "1,3,5"])
ARGVS = st.builds(lambda program, rest: [program, *rest], PROGRAMS, st.lists(TEXTS, max_size=4))
SIDECARS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.from_regex(r"[a-z0-9-]{1,32}", fullmatch=True).filter(lambda name: name != "engine"),
            "command": ARGVS,
        },
        optional={"waits_for_leader": st.booleans()},
    ),
    max_size=3,
    unique_by=lambda sidecar: str(sidecar["name"]),
)
VARIABLES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="="), min_size=1, max_size=9
)

OF_EVERY_ENGINE: dict[str, st.SearchStrategy[object]] = {
    "model": LINES,
    "served_model_name": LINES,
    "replica_id": LINES,
    "peers": st.lists(st.one_of(ADDRESSES, PEERS), max_size=3),
    "host": ADDRESSES,
    "gpus": st.lists(
        st.from_regex(r"[1-9][0-9]{0,2}|GPU-[0-9a-f]{8}", fullmatch=True), max_size=3, unique=True
    ),
    "tensor_parallel": RANKS,
    "pipeline_parallel": RANKS,
    "data_parallel": RANKS,
    "environment": st.dictionaries(VARIABLES, TEXTS, max_size=3),
    "environment_files": st.lists(PATHS, max_size=2),
    "executable": PROGRAMS,
    "verify_listener": st.booleans(),
    "health_generate": st.just(False),
    "on_unhealthy": st.just("report"),
    "user": WORDS,
    "group": st.one_of(st.just(""), WORDS),
    "working_directory": PATHS,
    "ready_timeout_s": TIMES,
    "ready_stall_s": st.just(0),
    "stop_timeout_s": TIMES,
    "drain_timeout_s": TIMES,
    "rendezvous_timeout_s": TIMES,
    "memory_max": AMOUNTS,
    "cpu_weight": st.integers(1, 10_000),
    "tasks_max": AMOUNTS,
    "allowed_cpus": NUMBERS,
    "allowed_memory_nodes": NUMBERS,
}


@st.composite
def valid_values(draw: st.DrawFn) -> dict[str, object]:
    """What a caller can send and is accepted, in any order."""
    engine = draw(st.sampled_from(sorted(DEFAULTS)))
    nodes = draw(st.integers(1, 4_096))
    required: dict[str, st.SearchStrategy[object]] = {"engine": st.just(engine)}
    optional = {**OF_EVERY_ENGINE, "port": PORTS, "health_path": st.sampled_from(["", "/", "/health"])}
    if engine == "command":
        optional.update(sidecars=SIDECARS, waits_for_leader=st.booleans())
        required["command"] = ARGVS
        if draw(st.booleans()):
            required["port"] = PORTS
        else:
            del optional["health_path"]
    else:
        optional["args"] = st.lists(TEXTS, max_size=4)
        required["model"] = LINES
    if nodes > 1 or draw(st.booleans()) or engine == "command":
        required.update(nodes=st.just(nodes), rank=st.integers(0, nodes - 1))
        required.update(leader_address=ADDRESSES, leader_port=PORTS)
    for key in required:
        optional.pop(key, None)
    values = draw(st.fixed_dictionaries(required, optional=optional))
    return dict(draw(st.permutations(list(values.items()))))


@st.composite
def other_defaults(draw: st.DrawFn, of: Defaults) -> Defaults:
    """Of the same engine, but configured differently, or not at all."""
    return replace(
        of,
        port=draw(st.one_of(st.just(0), PORTS)) if of.port else 0,
        health_path=draw(st.sampled_from(["", "/other"])),
        executable=draw(st.one_of(st.just(""), PROGRAMS)) if of.executable else "",
        user=draw(st.one_of(st.just(""), WORDS)),
        group=draw(st.one_of(st.just(""), WORDS)),
        working_directory=draw(PATHS),
        stop_timeout_s=draw(st.floats(0, 1e9)),
        rendezvous_timeout_s=draw(st.floats(0, 1e9)),
    )


ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([5_000, 5_001]).map(lambda digits: (-10) ** digits),  # more than Python prints
        st.floats(),
        st.text(st.characters()),  # half surrogate pairs included
        st.binary(),
        st.builds(object),
        TEXTS,
        LINES,
        ADDRESSES,
        NUMBERS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.none(), WORDS), inner, max_size=4),
        st.fixed_dictionaries({}, optional={"name": inner, "command": inner, "waits_for_leader": inner}),
    ),
    max_leaves=8,
)
