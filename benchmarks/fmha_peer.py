"""The attention expert against PyTorch's or a plain NumPy attention on the same cores, in alternating processes.

    python -m benchmarks.fmha_peer --peer torch --size 512 --rounds 30

PyTorch (`pip install torch`) is asked through `scaled_dot_product_attention`, whose CPU version is blocked attention
with online softmax. NumPy multiplies with OpenBLAS and keeps all scores. All have batch 1, 4 heads, `--size` keys and
queries, and 64 dimensions. How the rounds are made, and what the ratio is: `benchmarks.peers`.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from benchmarks import peers

PEERS = ("torch", "numpy")
HEADS, DIMENSIONS = 4, 64


def main() -> None:
    """Run the rounds, or one role in a process of its own."""
    arguments = _arguments()
    if arguments.role == "torch":
        print(*_torch(arguments.size))
    elif arguments.role == "numpy":
        print(*_numpy(arguments.size))
    elif arguments.role == peers.EXPERT:
        print(peers.expert_seconds(f"fmha/B=1,H={HEADS},S={arguments.size},D={DIMENSIONS}-f32"))
    else:
        _rounds(arguments)


def _rounds(arguments: argparse.Namespace) -> None:
    peer, size = arguments.peer, arguments.size
    interpreters = {peers.EXPERT: sys.executable, peer: arguments.python}
    commands = {
        role: (python, "-m", "benchmarks.fmha_peer", "--size", str(size), "--role", role)
        for role, python in interpreters.items()
    }
    out = arguments.out or Path(f"benchmarks/results/fmha_{peer}.csv")
    found = peers.rounds(commands, size, arguments.rounds, out)
    rate = {role: 4 * HEADS * size**2 * DIMENSIONS / seconds / 1e9 for role, seconds in found.seconds.items()}
    print(
        f"FMHA {size}: {found.ratio:.3f}x {found.told} (95 %: {found.low:.3f} to {found.high:.3f}, "
        f"{arguments.rounds} rounds); {rate[peers.EXPERT]:.0f} against {rate[peer]:.0f} GFLOP/s; {found.machine}"
    )


def _torch(size: int) -> tuple[float, str]:
    torch = import_module("torch")  # By name: no dependency of ours, and not there for a type checker.
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, size, DIMENSIONS) for _ in range(3))
    with torch.inference_mode():
        attention = torch.nn.functional.scaled_dot_product_attention
        found = peers.median_seconds(lambda: peers.timed(lambda: attention(q, k, v)))
    return found, f"PyTorch {torch.__version__}"


def _numpy(size: int) -> tuple[float, str]:
    import numpy as np

    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, HEADS, size, DIMENSIONS), np.float32) for _ in range(3))
    scores = np.empty((1, HEADS, size, size), np.float32)
    out = np.empty_like(q)
    scale = np.float32(DIMENSIONS**-0.5)

    def attention() -> None:
        np.matmul(q * scale, k.swapaxes(-1, -2), out=scores)
        np.subtract(scores, scores.max(-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        np.matmul(scores, v, out=out)
        np.divide(out, scores.sum(-1, keepdims=True), out=out)

    return peers.median_seconds(lambda: peers.timed(attention)), f"NumPy {np.__version__}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The attention expert against PyTorch or NumPy.")
    parser.add_argument("--peer", choices=PEERS, default="torch")
    parser.add_argument("--size", type=int, default=512, help="keys and queries; a multiple of 64")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the peer's package")
    parser.add_argument("--role", choices=(peers.EXPERT, *PEERS))
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
