import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect } from "vitest";
import type { StandingWalls } from "../../../../src/host/walls/walls.ts";
import type { Workload } from "../../../../src/engines/engine.ts";
import { SeatWallReport, guestWalls } from "../../../../src/engines/agent/seat-walls.ts";
import { REPOSITORY } from "../../../support/source-files.ts";
import { OPEN_NETWORK } from "../../../support/walls/open-network.ts";
import { verifies } from "../../../verifies.ts";

const of = (network: Workload["network"]) => ({ network }) as Workload;

verifies("seats.walls-asked", "what a seat is asked for follows from the settings and the app", () => {
  const auto = guestWalls({ isolation: "auto" }, OPEN_NETWORK, "Ray");
  expect(auto(of(true), 0).asked).toMatchObject({ isolation: "auto", must_judge: false });
  // Whatever the service's own machine can do: the other one is asked.
  const server = { ...of(true), server: { entrypoint: ["serve"], port: 8000 } };
  expect(auto(server, 21_005).asked?.network).toEqual(
    expect.arrayContaining([
      ["network", "true"],
      ["own_port", "21005"],
      ["declared_port", "8000"],
      ["guest", "true"],
    ]),
  );
  expect(auto(of("egress"), 0)).toMatchObject({
    asked: { must_judge: true },
    variables: { RES_OPTIONS: "use-vc" },
  });
  const warning = guestWalls({ isolation: "auto" }, { ...OPEN_NETWORK, networkUnenforced: "warn" }, "Ray");
  expect(warning(of("egress"), 0).asked?.must_judge).toBe(false);
  const named = guestWalls({ isolation: "landlock" }, OPEN_NETWORK, "Ray");
  expect(named(of(true), 0).asked).toMatchObject({ isolation: "landlock", must_judge: true });
  expect(named(of(false), 0).asked).toEqual({
    isolation: "landlock",
    network: [
      ["network", "false"],
      ["notifier", "true"],
    ],
    must_judge: false,
  });
  expect(guestWalls({ isolation: "none" }, OPEN_NETWORK, "Ray")(of(true), 0).asked).toBeNull();
  expect(() => guestWalls({ isolation: "uid" }, OPEN_NETWORK, "Ray")).toThrow(
    /MILLRACE_ISOLATION=uid, but on Ray all apps run as one user/,
  );
});

verifies("seats.walls-told", "the weakest counts, and each kind is told once", () => {
  const told: StandingWalls[] = [];
  const report = new SeatWallReport((walls) => told.push(walls));
  expect(report.weakest).toBeNull();
  const whole = { level: "userns", gap: null } as const;
  const open = { level: "userns", gap: "no SYS_PTRACE" } as const;
  const weak = { level: "landlock", gap: null } as const;
  for (const walls of [whole, whole, open, weak, whole, weak]) report.hear(walls);
  expect(told).toEqual([whole, open, weak]);
  expect(report.weakest).toEqual(weak);
});

/** What an agent makes of what it is asked for, and of what its machine offers. */
const CHOOSE = `
import json, sys; sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_agent.order import SeatOrder, Walls
from millrace_agent.app import NoWalls, choose
asked, offer, neighbours = json.load(sys.stdin)
fields = {"seatId": "", "addresses": [], "authority": "", "ticket": "", "graceMs": 1, "neighbours": neighbours}
try:
    around = choose(Walls(asked), offer, SeatOrder(fields).neighbours)
    print(json.dumps({**around.told(), "network": around.network}))
except NoWalls as no:
    print(json.dumps(str(no)))
`;

function choose(asked: object, offer: object, neighbours: string | null = null): unknown {
  const input = JSON.stringify([asked, offer, neighbours]);
  return JSON.parse(execFileSync("python3", ["-I", "-S", "-c", CHOOSE], { input, encoding: "utf8" }));
}

verifies(["seats.walls", "seats.walls-asked"], "an agent takes the strongest walls, or says why not", () => {
  const network = [
    ["network", "true"],
    ["management_port", "0"],
  ];
  const auto = { isolation: "auto", network, must_judge: false };
  const offer = { level: "landlock", reasons: { userns: "no new namespaces" }, gap: null };
  expect(choose(auto, offer, "/tmp/machines")).toEqual({
    level: "landlock",
    gap: null,
    network: [...network, ["neighbours", "/tmp/machines"]],
  });
  const gap = "no ptrace";
  expect(choose(auto, { ...offer, gap }, "/tmp/machines")).toEqual({
    level: "landlock",
    gap,
    network: [["network", "true"]],
  });
  expect(choose({ ...auto, must_judge: true }, { ...offer, gap })).toMatch(/nothing keeps it .*: no ptrace/);
  expect(choose({ ...auto, isolation: "userns" }, offer)).toBe(
    "MILLRACE_ISOLATION=userns, but its machine cannot give that: no new namespaces",
  );
  expect(choose({ ...auto, isolation: "process" }, offer)).toMatchObject({ level: "landlock" });
});
