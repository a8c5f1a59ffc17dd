import { beforeAll, expect } from "vitest";
import { parentOf } from "../../support/process-tree.ts";
import { pythonWith, skipWithoutPackages } from "../../support/pythons.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

let python: string | null = null;
beforeAll(async () => {
  python = await pythonWith("numpy", "pydantic");
});

const MODELS = `
import datetime
from typing import List, Optional
from pydantic import BaseModel

class Part(BaseModel):
    when: datetime.datetime
    note: Optional[str] = None

class Whole(BaseModel):
    parts: List[Part]

def run():
    part = Part(when=datetime.datetime(2026, 1, 2))
    return {"model": Whole(parts=[part]), "list": [part]}
`;

const ARRAYS = `
import numpy as np

VALUES = {
    "scalars": lambda: [np.int64(2**53 + 1), np.float64(0.5), np.bool_(True), np.uint8(255), np.str_("t")],
    "arrays": lambda: {"flat": np.arange(3), "deep": np.ones((2, 2), dtype=np.float32), "none": np.array([])},
    "dates": lambda: np.array(["2026-01-02"], dtype="datetime64[D]"),
    "zero-d": lambda: np.array(7),
    "nan": lambda: {"loss": np.float32("nan")},
    "nan-array": lambda: {"a": np.array([1.0, np.inf])},
    "complex": lambda: np.complex128(1j),
}

def run(kind):
    return VALUES[kind]()
`;

const DRAWS = `
import os, random
import numpy as np

RNG = np.random.default_rng()
SEEDED = np.random.default_rng(7)

def run():
    drawn = [random.random(), float(np.random.random()), float(RNG.random())]
    return {"pid": os.getpid(), "drawn": drawn, "seeded": float(SEEDED.random())}
`;

const service = sharedService(
  {
    models: { main: MODELS },
    arrays: { main: ARRAYS },
    draws: {
      main: DRAWS,
      toml: '[scaling]\nmin_replicas = 4\nmax_replicas = 4\nload_balancing_algorithm = "round-robin"\n',
    },
  },
  {
    // Known when it starts.
    get python() {
      return python ?? "python3";
    },
  },
);

verifies("run.sync.convert.pydantic", "pydantic models become objects, however deep", async (context) => {
  skipWithoutPackages(context, python);
  const part = { when: "2026-01-02T00:00:00", note: null };
  expect((await service().call("models")).json).toMatchObject({
    result: { model: { parts: [part] }, list: [part] },
  });
});

verifies("run.sync.convert.numpy", "numpy scalars and arrays become numbers and lists", async (context) => {
  skipWithoutPackages(context, python);
  const call = (kind: string) => service().call("arrays", { kind });
  expect((await call("scalars")).text).toContain('"result":[9007199254740993,0.5,true,255,"t"]');
  expect((await call("arrays")).json).toMatchObject({
    result: {
      flat: [0, 1, 2],
      deep: [
        [1, 1],
        [1, 1],
      ],
      none: [],
    },
  });
  expect((await call("dates")).json).toMatchObject({ result: ["2026-01-02"] });
  expect((await call("zero-d")).json).toMatchObject({ result: 7 });
  for (const [kind, text] of [
    ["nan", "result.loss is nan"],
    ["nan-array", "result.a[1] is inf"],
    ["complex", "complex"],
  ] as const) {
    const answer = await call(kind);
    expect([answer.status, answer.json.message]).toEqual([500, expect.stringContaining(text)]);
  }
});

verifies(
  "fork.reseeds",
  "replicas forked from an app that imports numpy draw different random numbers, and seeded ones the same",
  async (context) => {
    skipWithoutPackages(context, python);
    const seen = new Map<number, { drawn: number[]; seeded: number }>();
    while (seen.size < 4) {
      const { pid, drawn, seeded } = (await service().call("draws")).json.result;
      if (!seen.has(pid)) seen.set(pid, { drawn, seeded });
    }
    const replicas = [...seen.values()];
    for (const source of [0, 1, 2]) {
      expect(new Set(replicas.map(({ drawn }) => drawn[source])).size).toBe(4);
    }
    expect(new Set(replicas.map(({ seeded }) => seeded)).size).toBe(1);
    // Replica, its keeper, the template: one template for all of them is what a fork looks like.
    const parents = new Set([...seen.keys()].map((pid) => parentOf(parentOf(pid))));
    expect(parents.size).toBe(1);
  },
);
