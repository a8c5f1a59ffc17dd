import { expect, test } from "vitest";
import { PYTHON_DIR } from "../../../../src/config/package-files.ts";
import { behindWalls } from "../../../../src/host/walls/outer-keeper.ts";
import { complaintAbout, requireRung } from "../../../../src/host/walls/require-rung.ts";
import { RUNGS, highestRung } from "../../../../src/host/walls/rung.ts";
import type { Offer } from "../../../../src/host/walls/rung.ts";
import { NO_NETWORK } from "../../../../src/host/walls/network-fields.ts";
import { verifies } from "../../../verifies.ts";

const ALL: Offer = { process: null, landlock: null, userns: null, uid: null };
const NONE: Offer = {
  process: "no filter",
  landlock: "no Landlock",
  userns: "no namespaces",
  uid: "no root",
};

const HOST = {
  rung: "userns",
  python: "/usr/bin/python3",
  dataDir: "/data",
  user: null,
  reads: ["/opt/cuda"],
} as const;
const WALLED = {
  program: "/data/environments/e/bin/python",
  args: ["-c", "pass"],
  env: { LD_PRELOAD: "/data/storage/p/evil.so", PYTHONPATH: "/data/storage/p" },
  order: "{}",
  folders: { bundle: "/data/bundles/b", environment: "/data/environments/e", storage: "/data/storage/p" },
  scratch: "/data/scratch/s-1",
  python: { interpreter: "/opt/python/bin/python3.12", names: "/data/pythons/n" },
  input: null,
  memoryBytes: 200_000_000,
  reads: ["/srv/wheels"],
  writes: ["/data/work/w"],
  network: NO_NETWORK,
  unixSockets: false,
  home: "/run/home.sock",
};

test("the highest rung is the last that the host gives", () => {
  expect(highestRung(ALL)).toBe("uid");
  expect(highestRung({ ...ALL, uid: "no" })).toBe("userns");
  expect(highestRung({ ...ALL, uid: "no", userns: "no" })).toBe("landlock");
  // Landlock without scopes: a view of its own makes up for them.
  expect(highestRung({ ...ALL, landlock: "too old" })).toBe("uid");
  expect(highestRung(NONE)).toBeNull();
});

verifies(
  "settings.isolation.effect",
  "whatever a host lacks is told with what to do, and with what it gives instead",
  () => {
    for (const rung of RUNGS) {
      expect(complaintAbout(rung, ALL)).toBeNull();
      const complaint = complaintAbout(rung, NONE);
      expect(complaint).toContain(`MILLRACE_ISOLATION=${rung}`);
      expect(complaint).toContain(NONE[rung]);
      expect(complaint).not.toContain("or set it to");
    }
  },
);

verifies(
  "walls.auto",
  "where nothing can be tried auto says why there are no walls, and a level is refused",
  async () => {
    const settings = { dataDir: "/nonexistent", uidRange: { first: 1_000_000, last: 1_000_001 } };
    const required = async (isolation: "none" | "auto" | "process" | "uid") =>
      await requireRung({ ...settings, isolation }, "/nonexistent", []);
    expect(await required("none")).toEqual({ rung: null, lack: "MILLRACE_ISOLATION=none" });
    expect(await required("auto")).toEqual({
      rung: null,
      lack: expect.stringMatching(/^this host gives none: .*ENOENT.*seccomp/),
    });
    for (const rung of ["process", "uid"] as const)
      await expect(required(rung)).rejects.toThrow(/cannot give that/);
  },
);

verifies(
  "settings.isolation.effect",
  "a level is the weakest to accept, and the complaint names what there is",
  () => {
    const some: Offer = { ...NONE, process: null };
    expect(complaintAbout("process", some)).toBeNull();
    expect(complaintAbout("landlock", some)).toMatch(
      /no Landlock.*or set it to process, which this host gives$/,
    );
    expect(complaintAbout("landlock", { ...ALL, landlock: "too old" })).toBeNull();
  },
);

verifies(
  "walls.no-code-outside",
  "the outer keeper gets nothing that the app brings: no variable, no folder, no program of its own",
  () => {
    const start = behindWalls(HOST, WALLED);
    expect([start.python, start.args.slice(0, 3), start.env]).toEqual([
      "/usr/bin/python3",
      ["-I", "-S", "-c"],
      {},
    ]);
    expect(start.args.join(" ")).not.toContain("/data");
    expect(start.args.join(" ")).toContain(PYTHON_DIR);
    const plan = start.input?.text.split("\0") ?? [];
    for (const field of [
      "rung=userns",
      "network=false",
      "data_dir=/data",
      "order={}",
      "memory_bytes=200000000",
      "argument=pass",
      "read=/opt/cuda",
      "read=/srv/wheels",
      "read=/data/pythons/n",
      "interpreter=/opt/python/bin/python3.12",
      "write=/data/work/w",
    ])
      expect(plan).toContain(field);
    expect(plan).toContain("variable=LD_PRELOAD=/data/storage/p/evil.so");
    // An app chooses its secrets: none of them may become a field of the plan.
    const forged = { ...WALLED, env: { SECRET: "x\0rung=process" } };
    expect(() => behindWalls(HOST, forged)).toThrow("zero byte");
    const large = { ...WALLED, env: { SECRET: "x".repeat(128 * 1024) } };
    expect(() => behindWalls(HOST, large)).toThrow(expect.objectContaining({ code: "E2BIG" }));
  },
);
