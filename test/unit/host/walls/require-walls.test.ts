import { expect, test } from "vitest";
import { complaintAbout, requireLevel } from "../../../../src/host/walls/require-walls.ts";
import { highestLevel, type Offer, WALL_LEVELS } from "../../../../src/host/walls/walls.ts";
import { verifies } from "../../../verifies.ts";

const ALL: Offer = { process: null, landlock: null, userns: null, uid: null };
const NONE: Offer = {
  process: "no filter",
  landlock: "no Landlock",
  userns: "no namespaces",
  uid: "no root",
};

test("the highest level is the last that the host gives", () => {
  expect(highestLevel(ALL)).toBe("uid");
  expect(highestLevel({ ...ALL, uid: "no" })).toBe("userns");
  expect(highestLevel({ ...ALL, uid: "no", userns: "no" })).toBe("landlock");
  // Landlock without scopes: a view of its own makes up for them.
  expect(highestLevel({ ...ALL, landlock: "too old" })).toBe("uid");
  expect(highestLevel(NONE)).toBeNull();
});

verifies(
  "settings.isolation.effect",
  "whatever a host lacks is told with what to do, and with what it gives instead",
  () => {
    for (const level of WALL_LEVELS) {
      expect(complaintAbout(level, ALL)).toBeNull();
      const complaint = complaintAbout(level, NONE);
      expect(complaint).toContain(`MILLRACE_ISOLATION=${level}`);
      expect(complaint).toContain(NONE[level]);
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
      await requireLevel({ ...settings, isolation }, "/nonexistent", []);
    expect(await required("none")).toEqual({ level: null, lack: "MILLRACE_ISOLATION=none" });
    expect(await required("auto")).toEqual({
      level: null,
      lack: expect.stringMatching(/^this host gives none: .*ENOENT.*seccomp/),
    });
    for (const level of ["process", "uid"] as const)
      await expect(required(level)).rejects.toThrow(/cannot give that/);
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
