import { expect } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { cancel, ended, recordOf, submit } from "./site.ts";

/** Exceptions that make it as hard as they can to find out how long to wait, and of what class they are. */
const MAIN = `
import os
import millrace

class Evil(Exception):
    pass

class Raising(Exception):
    @property
    def retry_after(self):
        raise SystemExit(3)

class Hidden:
    @property
    def __class__(self):
        raise ValueError("no class")

class Long(float):
    def __ge__(self, other):
        raise ValueError("not compared")

class Nameless(type):
    @property
    def __name__(cls):
        return 5

class Modules(type):
    @property
    def __module__(cls):
        raise KeyError("no module")

class Liar(str):
    def __len__(self):
        raise ValueError("no length")

class LyingName(type):
    @property
    def __name__(cls):
        return Liar("x" * 100_000)

class Chain(type):
    def mro(cls):
        return [cls, *Exception.__mro__]

class WithNumber(Exception, metaclass=Nameless):
    pass

class WithoutModule(Exception, metaclass=Modules):
    pass

class WithLiar(Exception, metaclass=LyingName):
    pass

class WithMro(Exception, metaclass=Chain):
    pass

class Kin(type):
    def __instancecheck__(cls, instance):
        raise ValueError("not kin")
    def __subclasscheck__(cls, other):
        raise ValueError("not kin")

class WithKin(Exception, metaclass=Kin):
    pass

def deep(depth):
    kind = Exception
    for n in range(depth):
        kind = type("Deep%d" % n, (kind,), {})
    return kind("deep")

def odd(name):
    kind = type("Odd", (Exception,), {})
    kind.__module__ = name
    return kind("odd")

def late(wait):
    error = Evil("late")
    error.retry_after = wait
    return error

ERRORS = {
    "nan": lambda: late(float("nan")),
    "inf": lambda: late(float("inf")),
    "-inf": lambda: late(float("-inf")),
    "-1": lambda: late(-1),
    "-0": lambda: late(-0.0),
    "1e308": lambda: late(1e308),
    "tiny": lambda: late(5e-324),
    "text": lambda: late("x"),
    "true": lambda: late(True),
    "huge": lambda: late(10 ** 5000),
    "hidden": lambda: late(Hidden()),
    "long": lambda: late(Long(3)),
    "raising": lambda: Raising("raising"),
    "number": lambda: WithNumber("number"),
    "module": lambda: WithoutModule("module"),
    "liar": lambda: WithLiar("liar"),
    "mro": lambda: WithMro("mro"),
    "kin": lambda: WithKin("kin"),
    "deep": lambda: deep(200),
    "surrogate": lambda: odd("\\ud800"),
    "long-module": lambda: odd("m" * 1_000_000),
    "no-module": lambda: odd(None),
    "hidden-module": lambda: odd(Hidden()),
    "group": lambda: late(7),
}

def run(kind):
    raise ERRORS[kind]()

async def waiting(kind):
    raise ERRORS[kind]()

def pid():
    return os.getpid()
`;
const DAY_SECONDS = 86_400;
/** How many seconds the run then waits; null: as the rules say. */
const WAITS: Record<string, number | null> = {
  nan: null,
  inf: 30 * DAY_SECONDS,
  "-inf": null,
  "-1": null,
  "1e308": 30 * DAY_SECONDS,
  text: null,
  true: null,
  huge: 30 * DAY_SECONDS,
  hidden: null,
  raising: null,
  number: null,
  module: null,
  liar: null,
  mro: null,
  kin: null,
  deep: null,
  surrogate: null,
  "long-module": null,
  "no-module": null,
  "hidden-module": null,
};
const toml = `[scaling]\nmax_replicas = 1\n[retry]\nmax_attempts = 2\non = ["error"]\ninitial_delay = "1h"\njitter = 0\n`;
const service = sharedService({ app: { main: MAIN, toml } }, WITHOUT_WALLS);

verifies(
  ["retry.after", "retry.on"],
  "whatever an exception has as its wait, its name and its classes, its run waits and its replica lives",
  async () => {
    const pid = async () => (await service().call("app", {}, { functionName: "pid" })).json.result as number;
    const before = await pid();
    const seen: Record<string, number | null> = {};
    for (const functionName of ["run", "waiting"]) {
      for (const kind of Object.keys(WAITS)) {
        const id = await submit(service(), "app", { kind }, { functionName });
        await until(`${kind} waits or has ended`, async () => {
          const { status, dueAt } = await recordOf(service(), "app", id);
          return dueAt !== undefined || status === "failure";
        });
        const { dueAt, attempts, error } = await recordOf(service(), "app", id);
        expect([kind, error, attempts?.[0]?.error?.code]).toEqual([kind, null, "app_error"]);
        const seconds = (Date.parse(dueAt ?? "") - Date.parse(attempts?.[0]?.completedAt ?? "")) / 1000;
        seen[kind] = Math.round(seconds) === 3600 ? null : Math.round(seconds);
        expect((await cancel(service(), "app", id)).status).toBe(202);
      }
      expect(seen).toEqual(WAITS);
    }
    expect(await pid()).toBe(before);
  },
);

verifies("retry.after", "a wait of nothing is no wait", async () => {
  for (const kind of ["-0", "tiny"]) {
    const id = await submit(service(), "app", { kind });
    expect(await ended(service(), "app", id)).toMatchObject({ status: "failure", attempt: 2 });
  }
});
