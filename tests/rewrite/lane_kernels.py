"""Random kernels on vectors: one work-item, A and B read, C written, all in bounds for 256 elements each."""

from __future__ import annotations

import random
import textwrap

from experts.kernel import Kernel, parse

SIZE = 256
_MANIFEST = """/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "f"
grid = [1]
block = [1]
args = ["A", "B", "C", "N"]
*/
"""


class Maker:
    """Writes one kernel."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.width = rng.choice((2, 4, 8, 16))
        self.count = 0
        self.vectors: list[str] = []
        self.arrays: list[str] = []
        self.pointers: list[str] = []

    @property
    def type(self) -> str:
        return f"float{self.width}"

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def kernel(self) -> Kernel:
        """The whole text."""
        self.vector_parameter = self.rng.random() < 0.4
        b = self.type if self.vector_parameter else "float"
        lines = ["float s = A[3];", *self.declare()]
        for _ in range(self.rng.randint(2, 7)):
            lines += self.statement(2)
        lines += [f"C[0] += s + {self.component(self.rng.choice(self.vectors))};"]
        body = textwrap.indent("\n".join(lines), "    ")
        head = f"__kernel void f(__global const float *A, __global const {b} *B, __global float *C, int N)"
        return parse(f"{_MANIFEST}{head}\n{{\n{body}\n}}\n", surface="opencl")

    # expressions

    def place(self) -> str:
        """An offset of a whole vector."""
        return self.rng.choice((f"{self.width * self.rng.randrange(SIZE // self.width)}", f"N * {self.width}"))

    def index(self) -> str:
        return self.rng.choice((str(self.rng.randrange(SIZE // self.width)), "N", "(N + 1)", "N + 1"))

    def load(self) -> str:
        anywhere = self.rng.randrange(SIZE - self.width + 1)
        choices = [
            f"vload{self.width}({self.index()}, A)",
            f"vload{self.width}(0, A + {anywhere})",
            f"vload{self.width}(0, &A[{anywhere}])",
            f"*(__global const {self.type} *)(A + {self.place()})",
            f"*(__global const {self.type} *)A",
            f"((__global const {self.type} *)A)[{self.index()}]",
        ]
        choices += [f"B[{self.index()}]", "*B"] if self.vector_parameter else [f"vload{self.width}({self.index()}, B)"]
        return self.rng.choice(choices)

    def scalar(self) -> str:
        choices = ["0.5f", "s", "N", "2", "A[N]", "s - 1.0f"]
        if self.vectors:
            choices.append(self.component(self.rng.choice(self.vectors)))
        return self.rng.choice(choices)

    def component(self, vector: str) -> str:
        lane = self.rng.randrange(self.width)
        letters = "xyzw"[lane] if self.width <= 4 and self.rng.random() < 0.8 else f"s{lane:x}"
        return f"{vector}.{letters}"

    def vector(self, depth: int) -> str:
        """An expression; never large."""
        if depth == 0 or self.rng.random() < 0.2:
            element = [f"{a}[{self.rng.randrange(2)}]" for a in self.arrays]
            return self.rng.choice([*self.vectors, *element, self.load(), self.load()])
        one, other = self.vector(depth - 1), self.vector(depth - 1)
        return self.rng.choice(
            (
                f"{one} + {other}",
                f"({one} - {other}) * 0.25f",
                f"-({one})",
                f"({one}) / (float{self.width})(4)",
                f"{self.scalar()} + {one}",
                f"mad({one}, ({self.type})({self.rng.choice(('0.5f', 's', 'N'))}), {other})",
                f"max({one}, {self.rng.choice(('0.0f', 's'))})",
                f"fmin({one}, {other})",
                f"sqrt(fabs({one}))",
                f"convert_float{self.width}(convert_int{self.width}({one}) / 2)",
            )
        )

    def splat(self) -> str:
        return self.rng.choice((f"({self.type})({self.scalar()})", "0.0f", "1", f"({self.type})(0.0f)"))

    # statements

    def declare(self) -> list[str]:
        name = self.name("v")
        roll = self.rng.randrange(7)
        if roll == 0:
            lines = [f"{self.type} {name};", f"{name} = {self.vector(1)};"]
        elif roll == 1:
            other = self.name("v")
            lines = [f"{self.type} {name} = {self.vector(1)}, {other} = {self.rng.choice((name, self.splat()))};"]
            self.vectors.append(other)
        elif roll == 2:
            lines = [f"{self.type} {name} = ({self.type})({', '.join(self.scalar() for _ in range(self.width))});"]
        elif roll == 3:
            lines = [f"{self.type} {name} = {self.splat()};"]
        elif roll == 4 and self.vectors:
            array, i = self.name("t"), self.name("i")
            value = self.rng.choice(("0.0f", self.vectors[-1]))
            lines = [f"{self.type} {array}[2];", "#pragma unroll", f"for (int {i} = 0; {i} < 2; {i}++)"]
            lines += [f"    {array}[{i}] = {value};", f"{self.type} {name} = {array}[1];"]
            self.arrays.append(array)
        else:
            lines = [f"{self.type} {name} = {self.vector(2)};"]
        self.vectors.append(name)
        return lines

    def pointed(self) -> list[str]:
        name, offset = self.name("p"), self.width * self.rng.randrange(4)
        target = self.rng.choice((f"(C + {offset})", "C", f"(C + {offset} + N * {self.width})"))
        lines = [f"__global {self.type} *{name} = (__global {self.type} *){target};"]
        for _ in range(self.rng.randint(1, 3)):
            at = self.rng.choice((f"*{name}", f"{name}[1]", f"{name}[N]"))
            value = self.rng.choice((f"{self.vector(1)}", "0.0f", f"{name}[N + 1] * 0.5f"))
            lines.append(f"{at} {self.rng.choice(('=', '+='))} {value};")
            lines += self.rng.choice(([], [f"{name}++;"], [f"{name} += 2;"]))
        return lines

    def store(self) -> list[str]:
        value = self.rng.choice((self.vector(2), self.splat()))
        whole = value if value.startswith(("v", "(float")) and "/" not in value else f"({self.type})({value})"
        return [
            self.rng.choice(
                (
                    f"vstore{self.width}({whole}, {self.index()}, C);",
                    f"*(__global {self.type} *)(C + {self.place()}) = {value};",
                    f"((__global {self.type} *)C)[{self.index()}] += {value};",
                )
            )
        ]

    def statement(self, depth: int) -> list[str]:
        """One or more lines; what is declared inside a block stays there."""
        roll = self.rng.randrange(9)
        kept = list(self.vectors), list(self.arrays)
        if roll < 2:
            return self.declare() if depth == 2 else self.store()
        if roll < 4:
            operator = self.rng.choice(("=", "+=", "*=", "-="))
            value = self.vector(2) if operator != "*=" else "0.5f"
            return [f"{self.rng.choice(self.vectors)} {operator} {value};"]
        if roll == 4:
            one = self.rng.choice(self.vectors)
            return [f"{self.component(one)} = {self.scalar()};", f"s += 0.1f * {self.component(one)};"]
        if roll == 5:
            return self.pointed()
        if roll == 6 and depth:
            inner = self.statement(0)[:1]
            other = self.statement(0)[:1]
            lone = all(not line.startswith(("__global", "float", "#")) for line in (*inner, *other))
            self.vectors, self.arrays = kept
            if lone:
                return ["if (N > 1)", f"    {inner[0]}", "else", f"    {other[0]}"]
            return self.store()
        if roll == 7 and depth:
            i = self.name("i")
            inner = self.declare() + self.statement(1)
            self.vectors, self.arrays = kept
            return [f"for (int {i} = 0; {i} < 2; {i}++) {{", *(f"    {line}" for line in inner), "}"]
        return self.store()


def random_kernel(seed: int) -> Kernel:
    """The kernel of a seed."""
    return Maker(random.Random(seed)).kernel()
