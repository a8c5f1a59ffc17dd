import type { Clock, Timer } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { AppError } from "../../model/errors.ts";
import type { RunCaller } from "../../model/run.ts";
import type { QuotaName, Quotas } from "../../model/usage.ts";
import type { Store } from "../../store/store.ts";
import { DAY_MS, dayOf } from "../../store/usage/roll-up.ts";
import type { QuotaCount } from "../../store/usage/quota-counts.ts";
import type { Executor } from "../execute.ts";
import { MinuteWindow } from "./minute-window.ts";
import type { ProjectQuotas } from "./project-quotas.ts";

type KeeperParts = {
  readonly store: Pick<Store, "quotaCounts" | "dailyUsage">;
  readonly clock: Clock;
  readonly log: Log;
  readonly executor: Pick<Executor, "countOf">;
  readonly projects: Pick<ProjectQuotas, "isEmpty" | "of">;
  /** This node; null if it is the only one: then it has no one to tell. */
  readonly nodeId: string | null;
};

/** An account or a project that has quotas. */
type Subject = {
  readonly id: string;
  readonly projectId: string;
  /** Null for the project itself. */
  readonly accountId: string | null;
  quotas: Quotas;
};

type Watched = Subject & {
  readonly calls: MinuteWindow;
  /** Calls since the last exchange. */
  untold: number;
  usedAt: number;
  /** What the other nodes have counted, as of the last exchange. */
  others: Pick<QuotaCount, "calls" | "running">;
  othersAt: number;
  /** Of that day, as it was read last. */
  gpu: { readonly day: number; readonly ms: number; readonly at: number };
};

/** Who asks for a run: null without a token. `quotas`: those of the account. */
export type Payer = { readonly caller: RunCaller; readonly quotas: Quotas | null };

const TICK_MS = 1_000;
/** A node tells others when it has admitted this share of a limit since it did so last. */
const TOLD_SHARE = 0.02;
/** How often the GPU time of a day is read again while there are calls. */
const GPU_MS = 3_000;
/** Between two exchanges. */
const LEAST_GAP_MS = 50;
/** What others said longer ago counts no more. */
const OTHERS_MS = 5_000;
/** Counts of a minute are of no use after this. */
const FORGET_MS = 65_000;
const MINUTE_SECONDS = 60;
const NO_OTHERS = { calls: 0, running: 0 };

/** Refuses runs of accounts and projects that have used what they may. */
export class QuotaKeeper {
  readonly #parts: KeeperParts;
  readonly #watched = new Map<string, Watched>();
  #timer: Timer | null = null;
  /** The exchange in progress. */
  #telling: Promise<void> | null = null;
  #toldAt = 0;
  #isStopped = false;

  constructor(parts: KeeperParts) {
    this.#parts = parts;
  }

  /** Whether a run of that caller has to be admitted. */
  applies(payer: Payer | null): boolean {
    return !this.#parts.projects.isEmpty || (payer !== null && payer.quotas !== null);
  }

  /** Counts a run that is about to begin; throws `quota_exceeded`. */
  admit(projectId: string, payer: Payer | null): void {
    const subjects = this.#subjectsOf(projectId, payer);
    if (subjects.length === 0) return;
    const now = this.#parts.clock.monotonic();
    // First all of them: a run that the project may not have is no call of the account.
    for (const subject of subjects) this.#check(subject, now);
    for (const subject of subjects) {
      subject.calls.add(now);
      subject.untold += 1;
      subject.usedAt = now;
      const { callsPerMinute } = subject.quotas;
      if (callsPerMinute !== null && subject.untold >= callsPerMinute * TOLD_SHARE) this.#tellSoon(now);
    }
    this.#timer ??= this.#parts.clock.every(TICK_MS, () => this.#tick());
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.#telling;
  }

  #subjectsOf(projectId: string, payer: Payer | null): Watched[] {
    const ofProject = this.#parts.projects.of(projectId);
    const subjects: Watched[] = [];
    if (payer?.quotas) {
      const { accountId } = payer.caller;
      subjects.push(this.#watch({ id: accountId, projectId, accountId, quotas: payer.quotas }));
    }
    if (ofProject)
      subjects.push(this.#watch({ id: projectId, projectId, accountId: null, quotas: ofProject }));
    return subjects;
  }

  #watch(subject: Subject): Watched {
    const known = this.#watched.get(subject.id);
    if (known) {
      known.quotas = subject.quotas;
      return known;
    }
    const now = this.#parts.clock.monotonic();
    const watched = {
      ...subject,
      calls: new MinuteWindow(),
      untold: 0,
      usedAt: now,
      others: NO_OTHERS,
      othersAt: 0,
      gpu: { day: 0, ms: 0, at: Number.NEGATIVE_INFINITY },
    };
    this.#watched.set(subject.id, watched);
    // What the others have counted, and what was used today, is known a moment later.
    this.#tellSoon(now);
    return watched;
  }

  #check(subject: Watched, now: number): void {
    const { calls, quotas, accountId, projectId } = subject;
    const others = now - subject.othersAt <= OTHERS_MS ? subject.others : NO_OTHERS;
    const { callsPerMinute, concurrentRuns, gpuSecondsPerDay } = quotas;
    if (callsPerMinute !== null && calls.count(now) + others.calls >= callsPerMinute) {
      // What others have counted is past at an unknown time, in a minute at the latest.
      const room = callsPerMinute - 1 - others.calls;
      throw refusal(subject, "callsPerMinute", room < 0 ? MINUTE_SECONDS * 1000 : calls.waitMs(now, room));
    }
    if (concurrentRuns !== null) {
      const running = this.#parts.executor.countOf({ projectId, accountId }, concurrentRuns) + others.running;
      if (running >= concurrentRuns) throw refusal(subject, "concurrentRuns", TICK_MS);
    }
    if (gpuSecondsPerDay === null) return;
    const epochMs = this.#parts.clock.now();
    const { day, ms } = subject.gpu;
    if (day === dayOf(epochMs) && ms >= gpuSecondsPerDay * 1000)
      throw refusal(subject, "gpuSecondsPerDay", (day + 1) * DAY_MS - epochMs);
  }

  /** Tells others while there is something to tell. */
  #tick(): void {
    const now = this.#parts.clock.monotonic();
    for (const [id, { usedAt }] of this.#watched) if (now - usedAt > FORGET_MS) this.#watched.delete(id);
    if (this.#watched.size > 0) return this.#tellSoon(now);
    this.#timer?.cancel();
    this.#timer = null;
  }

  /** One exchange at a time; what comes during it is told by a later one. */
  #tellSoon(now: number): void {
    if (this.#isStopped || this.#telling || now - this.#toldAt < LEAST_GAP_MS) return;
    this.#toldAt = now;
    this.#telling = this.#exchange()
      .catch((error: unknown) => this.#parts.log.debug({ err: error }, "could not exchange counts of quotas"))
      .finally(() => (this.#telling = null));
  }

  async #exchange(): Promise<void> {
    const { store, clock, executor, nodeId } = this.#parts;
    const subjects = [...this.#watched.values()];
    const day = dayOf(clock.now());
    for (const subject of subjects) {
      const { projectId, accountId, quotas, gpu } = subject;
      const at = clock.monotonic();
      if (quotas.gpuSecondsPerDay === null || at - gpu.at < GPU_MS) continue;
      subject.gpu = { day, at, ms: await store.dailyUsage.gpuMs({ projectId, accountId, day }) };
    }
    if (nodeId === null) return;
    const now = clock.monotonic();
    const counts = subjects.map(({ id, projectId, accountId, calls, quotas }) => ({
      subject: id,
      calls: calls.count(now),
      running: executor.countOf({ projectId, accountId }, quotas.concurrentRuns ?? 0),
    }));
    for (const subject of subjects) subject.untold = 0;
    const found = await store.quotaCounts.exchange({ node: nodeId, counts });
    const bySubject = new Map(found.map((count) => [count.subject, count]));
    for (const subject of subjects) {
      subject.others = bySubject.get(subject.id) ?? NO_OTHERS;
      subject.othersAt = clock.monotonic();
    }
  }
}

/** How a limit is named in headers, and said. */
const WORDS: Readonly<Record<QuotaName, { readonly name: string; readonly say: (limit: number) => string }>> =
  {
    callsPerMinute: { name: "calls", say: (limit) => `make ${limit} calls a minute` },
    concurrentRuns: {
      name: "concurrent-runs",
      say: (limit) => `have ${limit} runs in progress at a time; wait for some to end`,
    },
    gpuSecondsPerDay: { name: "gpu-seconds", say: (limit) => `use ${limit} GPU seconds a day, in UTC` },
  };

/** The header fields are those of draft-ietf-httpapi-ratelimit-headers-10. */
function refusal({ accountId, quotas }: Subject, exceeded: QuotaName, waitMs: number): AppError {
  const seconds = String(Math.max(1, Math.ceil(waitMs / 1000)));
  const prefix = accountId === null ? "project-" : "";
  const policies = (Object.keys(WORDS) as QuotaName[]).flatMap((quota) => {
    const limit = quotas[quota];
    return limit === null ? [] : `"${prefix}${WORDS[quota].name}";q=${limit}${UNITS[quota]}`;
  });
  const who = accountId === null ? "The project" : "This token";
  return new AppError("quota_exceeded", {
    message: `${who} may ${WORDS[exceeded].say(quotas[exceeded] ?? 0)}.`,
    headers: {
      "retry-after": seconds,
      ratelimit: `"${prefix}${WORDS[exceeded].name}";r=0;t=${seconds}`,
      "ratelimit-policy": policies.join(", "),
    },
  });
}

/** Windows in seconds, and what is counted if that is not requests. */
const UNITS: Readonly<Record<QuotaName, string>> = {
  callsPerMinute: `;w=${MINUTE_SECONDS}`,
  concurrentRuns: ';qu="concurrent-requests"',
  gpuSecondsPerDay: `;qu="gpu-seconds";w=${DAY_MS / 1000}`,
};
