import { expect, onTestFinished, test } from "vitest";
import type { Clock } from "../../../src/kit/clock.ts";
import type { Store } from "../../../src/store/store.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { HeldClock } from "../../support/held-clock.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** Reads that stand still until the test lets them go on. */
class Held {
  begun = 0;
  readonly #opened = Promise.withResolvers<void>();

  async pass(): Promise<void> {
    this.begun += 1;
    await this.#opened.promise;
  }

  /** From now on nobody stands still. */
  open(): void {
    this.#opened.resolve();
  }
}

/** A service whose lists of service accounts, and whose figures, stand still; two projects with a token each. */
async function site(clock: Clock) {
  const [quick, heavy] = [new Held(), new Held()];
  const aroundStore = (store: Store): Store => ({
    ...store,
    accounts: {
      ...store.accounts,
      list: async (input) => {
        await quick.pass();
        return await store.accounts.list(input);
      },
    },
    runFigures: {
      ...store.runFigures,
      ofSpan: async (span) => {
        await heavy.pass();
        return await store.runFigures.ofSpan(span);
      },
    },
  });
  const service = await testService({}, {}, { clock, aroundStore });
  const projects = [service.service.owner.projectId, "p-neighbor"];
  await service.service.store.projects.insert({ id: "p-neighbor", name: "neighbor", createdAt: 1 });
  const tokens = await Promise.all(
    projects.map(async (projectId) => {
      const account = { projectId, name: "test", role: "admin" as const, expiresAt: Date.now() + 3_600_000 };
      return (await service.service.tokens.issue(account)).token;
    }),
  );
  const ask = async (project: 0 | 1, path: string, signal?: AbortSignal) => {
    const url = `${service.service.baseUrl}/v2/projects/${projects[project]}/${path}`;
    const headers = { authorization: `Bearer ${tokens[project]}` };
    const response = await fetch(url, { headers, ...(signal && { signal }) });
    const json = (await response.json()) as { code?: string };
    return { status: response.status, code: json.code, retryAfter: response.headers.get("retry-after") };
  };
  return { service, quick, heavy, ask };
}

/** One on which nobody waits too long, however busy the machine is. */
async function heldSite() {
  const clock = new HeldClock();
  const parts = await site(clock);
  clock.hold();
  onTestFinished(() => clock.release());
  return parts;
}

type Answered = { readonly status: number };

/** How many of some requests have been refused so far. */
function refusals(requests: readonly Promise<Answered>[]): { count: number } {
  const refused = { count: 0 };
  for (const request of requests) {
    void request.then(({ status }) => (refused.count += status === 429 ? 1 : 0));
  }
  return refused;
}

/** All but so many are answered, the others refused. */
async function expectServed(requests: readonly Promise<Answered>[], refused: number): Promise<void> {
  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  const expected = [...Array(requests.length - refused).fill(200), ...Array(refused).fill(429)];
  expect(statuses.toSorted((a, b) => a - b)).toEqual(expected);
}

verifies(
  "shares.in-flight",
  "a project has 32 requests under way, 256 wait, the rest get 429, and others are served",
  async () => {
    const { quick, ask } = await heldSite();
    const requests = Array.from({ length: 300 }, () => ask(0, "service-accounts"));
    const refused = refusals(requests);
    await until("those are refused for whom there is no room", () => refused.count === 300 - 32 - 256);
    await until("as many are under way as may be", () => quick.begun === 32);
    expect(await ask(1, "apps")).toMatchObject({ status: 200 });
    const neighbor = ask(1, "service-accounts");
    await until("it is under way", () => quick.begun === 33);
    const full = { status: 429, code: "too_many_in_flight", retryAfter: "1" };
    expect(await ask(0, "apps")).toEqual(full);
    quick.open();
    await expectServed(requests, 300 - 32 - 256);
    expect(await neighbor).toMatchObject({ status: 200 });
    expect(await ask(0, "apps")).toMatchObject({ status: 200 });
  },
);

verifies(
  "shares.heavy",
  "a project's figures come one after the other; another's have their turn, and quick reads go by",
  async () => {
    const { heavy, ask } = await heldSite();
    const requests = Array.from({ length: 200 }, () => ask(0, "figures"));
    const refused = refusals(requests);
    await until("those are refused for whom there is no room", () => refused.count === 200 - 4 - 128);
    await until("one is under way", () => heavy.begun === 1);
    const [mine, theirs] = [await ask(0, "apps"), await ask(1, "apps")];
    expect([mine.status, theirs.status]).toEqual([200, 200]);
    const neighbor = ask(1, "figures");
    await until("it is under way", () => heavy.begun === 2);
    const full = { status: 429, code: "too_many_in_flight", retryAfter: "5" };
    expect(await ask(0, "figures")).toEqual(full);
    heavy.open();
    await expectServed(requests, 200 - 4 - 128);
    expect(await neighbor).toMatchObject({ status: 200 });
  },
);

test("who waits longer than ten seconds is told to come again, and who leaves makes room", async () => {
  const clock = new SkippingClock();
  const { heavy, ask } = await site(clock);
  const first = ask(0, "figures");
  await until("it is under way", () => heavy.begun === 1);
  const leaving = new AbortController();
  const left = ask(0, "figures", leaving.signal).catch(() => "left");
  const second = ask(0, "figures");
  const late = refusals([second]);
  leaving.abort();
  // It may still be on its way when the clock moves.
  await until("it has waited long enough", () => {
    clock.skip(10_000);
    return late.count === 1;
  });
  expect(await second).toEqual({ status: 429, code: "too_many_in_flight", retryAfter: "5" });
  expect(await left).toBe("left");
  expect(heavy.begun).toBe(1);
  heavy.open();
  expect([(await first).status, (await ask(0, "figures")).status]).toEqual([200, 200]);
});
