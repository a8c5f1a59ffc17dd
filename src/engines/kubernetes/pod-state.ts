import * as z from "zod/mini";
import { describeRunOut, type Limits } from "../../host/limits/limits.ts";
import { describeExit, type Exit, ended } from "../engine.ts";
import { visibleText } from "../../model/visible-text.ts";
import { BUILDKIT, CONTAINER, NODE, SEAT } from "./labels.ts";

const MAX_WORDS = 500;
const MAX_LAST_WORDS = 400;
const words = z.pipe(
  z.string(),
  z.transform((text) => text.slice(0, MAX_WORDS)),
);
const id = z.string().check(z.maxLength(253));

/** A container's last output, on one line without control characters. An app's image may print anything. */
const LAST_WORDS = z.pipe(z.string(), z.transform(lastWords));
const WAITING = z.object({ reason: z.optional(words), message: z.optional(words) });
const TERMINATED = z.object({
  exitCode: z.int(),
  reason: z.optional(words),
  message: z.optional(LAST_WORDS),
  finishedAt: z.nullish(words),
});
const STATE = z.object({
  waiting: z.nullish(WAITING),
  running: z.nullish(z.object({ startedAt: z.nullish(words) })),
  terminated: z.nullish(TERMINATED),
});
const STATUS = z.object({
  name: words,
  state: z.optional(STATE),
  lastState: z.optional(STATE),
  imageID: z.optional(words),
});
const STATUSES = z.array(STATUS).check(z.maxLength(64));
const CONDITION = z.object({ type: words, status: words, message: z.optional(words) });

const POD = z.object({
  metadata: z.object({
    name: id,
    uid: id,
    labels: z.object({ [NODE]: id, [SEAT]: id }),
    deletionTimestamp: z.optional(id),
  }),
  status: z.optional(
    z.object({
      phase: z.optional(words),
      reason: z.optional(words),
      message: z.optional(words),
      conditions: z.optional(z.array(CONDITION).check(z.maxLength(64))),
      containerStatuses: z.optional(STATUSES),
      initContainerStatuses: z.optional(STATUSES),
    }),
  ),
});

export type SeenPod = NonNullable<ReturnType<typeof readPod>>;

type PodEnd = { readonly kind: "memory" } | { readonly kind: "other"; readonly detail: string };

const IMAGE = /^(?:[\w.:/-]{1,400}@)?sha256:[0-9a-f]{64}$/;

type Status = NonNullable<z.infer<typeof POD>["status"]>;

/** Null for a pod that is not ours. */
export function readPod(object: unknown) {
  const { success, data } = POD.safeParse(object);
  if (!success) return null;
  const { metadata, status = {} } = data;
  const { state, imageID = "" } = containerOf(status) ?? {};
  return {
    name: metadata.name,
    uid: metadata.uid,
    nodeId: metadata.labels[NODE],
    seatId: metadata.labels[SEAT],
    // It was deleted, and exists until its machine has ended it.
    isLeaving: metadata.deletionTimestamp !== undefined,
    isScheduled: isCondition(status, "PodScheduled", "True"),
    // Its machine is still preparing volumes or network.
    isBeingSetUp: isCondition(status, "PodReadyToStartContainers", "False"),
    // Its image was pulled, and its container has started.
    hasStarted: Boolean(state?.running ?? state?.terminated),
    image: imageOf(imageID),
    obstacle: obstacleOf(status),
    // Null while it may still run, even on a machine that is not ready.
    end: endOf(status),
    // The phase of the pod follows later.
    hasSucceeded: state?.terminated?.exitCode === 0,
  };
}

function isCondition({ conditions = [] }: Status, type: string, is: "True" | "False"): boolean {
  return conditions.some((each) => each.type === type && each.status === is);
}

/** The image by digest, with the repository if it came from one; null if unknown. Some runtimes put a scheme first. */
function imageOf(id: string): string | null {
  const name = id.split("://").at(-1) ?? "";
  return IMAGE.test(name) ? name : null;
}

/** The agent's container. The cluster may have added others. */
function containerOf({ containerStatuses = [] }: Status): z.infer<typeof STATUS> | undefined {
  return containerStatuses.find(({ name }) => name === CONTAINER);
}

/** The end of a text, where a traceback says most. */
function lastWords(text: string): string {
  const line = text
    .slice(-4 * MAX_LAST_WORDS)
    .replaceAll(/\s+/g, " ")
    .trim();
  const shown = visibleText(line.slice(-MAX_LAST_WORDS));
  return shown.length > MAX_LAST_WORDS || line.length > MAX_LAST_WORDS
    ? `…${shown.slice(1 - MAX_LAST_WORDS)}`
    : shown;
}

export function exitOf(end: PodEnd, limits: Limits): Exit {
  if (end.kind === "other") return ended(end.detail);
  return { detail: describeRunOut(limits), initFailure: null, isOutOfMemory: true };
}

/** Reasons of a waiting container that are normal steps of its start. */
const NORMAL_WAITS: ReadonlySet<string> = new Set(["ContainerCreating", "PodInitializing"]);
const WHAT_FAILED: Readonly<Record<string, string>> = {
  ErrImagePull: "its image cannot be pulled",
  ImagePullBackOff: "its image cannot be pulled",
  ErrImageNeverPull: "its image is not on the machine",
  InvalidImageName: "its image has an invalid name",
  CreateContainerConfigError: "its container cannot be set up",
  CreateContainerError: "its container cannot be created",
  RunContainerError: "its container cannot be started",
  CrashLoopBackOff: "a container of its pod crashes repeatedly",
};

function obstacleOf(status: Status): string | null {
  const { conditions = [], initContainerStatuses = [] } = status;
  const stuck = [...initContainerStatuses, containerOf(status)].find((each) => {
    const reason = each?.state?.waiting?.reason;
    return reason && !NORMAL_WAITS.has(reason);
  });
  const { reason, message } = stuck?.state?.waiting ?? {};
  if (reason) {
    const words = stuck?.lastState?.terminated?.message ?? message;
    return join(WHAT_FAILED[reason] ?? `its container waits (${reason})`, words);
  }
  const scheduled = conditions.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False") return join("its pod has no machine yet", scheduled.message);
  return null;
}

function endOf(status: Status): PodEnd | null {
  const { phase, reason, message } = status;
  const own = containerOf(status)?.state?.terminated;
  // A container added by the cluster may keep the pod from ending.
  if (phase !== "Failed" && phase !== "Succeeded" && !own) return endBeside(status);
  const terminated = own ?? failedBefore(status);
  // The cluster ended it, for example evicted it.
  if (reason) return { kind: "other", detail: join(plain(reason), message) };
  if (!terminated) return { kind: "other", detail: `its pod ended as ${phase}` };
  if (terminated.reason === "OOMKilled") return { kind: "memory" };
  const isOwn = terminated.reason === "Error" || terminated.reason === "Completed";
  const detail = describeExit(terminated.exitCode, null);
  if (isOwn || !terminated.reason) return { kind: "other", detail: join(detail, terminated.message) };
  return { kind: "other", detail: join(plain(terminated.reason), terminated.message ?? detail) };
}

function failedBefore({ initContainerStatuses = [] }: Status): z.infer<typeof TERMINATED> | undefined {
  const ends = initContainerStatuses.flatMap(({ state }) => state?.terminated ?? []);
  return ends.find(({ exitCode }) => exitCode !== 0);
}

/** BuildKit has ended before its agent: the build is lost, though the cluster restarts BuildKit. */
function endBeside(status: Status): PodEnd | null {
  const { startedAt } = containerOf(status)?.state?.running ?? {};
  const beside = status.initContainerStatuses?.find(({ name }) => name === BUILDKIT);
  const ended = beside?.state?.terminated ?? beside?.lastState?.terminated;
  // Ends before the agent's start were failed starts of BuildKit. ISO times compare as texts.
  if (!startedAt || !ended?.finishedAt || ended.finishedAt <= startedAt) return null;
  if (ended.reason === "OOMKilled") return { kind: "memory" };
  const detail = join(`BuildKit ended (${describeExit(ended.exitCode, null)})`, ended.message);
  return { kind: "other", detail };
}

const PLAIN: Readonly<Record<string, string>> = {
  Evicted: "evicted by the cluster",
  Preempting: "preempted by a pod of higher priority",
  NodeLost: "lost with its machine",
  NodeShutdown: "its machine was shut down",
  Terminated: "its machine was shut down",
  UnexpectedAdmissionError: "refused by its machine",
  OutOfcpu: "refused by its machine for lack of processors",
  OutOfmemory: "refused by its machine for lack of memory",
  StartError: "its container could not start",
  ContainerCannotRun: "its container could not start",
  ContainerStatusUnknown: "lost with its machine",
  DeadlineExceeded: "ended by a deadline",
};

function plain(reason: string): string {
  return PLAIN[reason] ?? reason;
}

function join(what: string, message: string | undefined): string {
  return message ? `${what}: ${message}`.slice(0, MAX_WORDS) : what;
}

const WARNING = z.object({
  reason: words,
  message: z.optional(words),
  lastTimestamp: z.nullish(words),
  eventTime: z.nullish(words),
});
const EVENTS = z.object({ items: z.array(z.unknown()).check(z.maxLength(1_000)) });
const WHAT_IT_WARNS_OF: Readonly<Record<string, string>> = {
  FailedMount: "a volume of its pod cannot be mounted",
  FailedAttachVolume: "a volume of its pod cannot be mounted",
  FailedCreatePodSandBox: "its pod cannot be set up",
};

/** The latest of the cluster's events about a pod, as a text; null if there is none. */
export function lastWarning(events: unknown): string | null {
  const [latest] = EVENTS.parse(events)
    .items.flatMap((each) => {
      const read = WARNING.safeParse(each);
      return read.success ? [read.data] : [];
    })
    .toSorted((one, other) => timeOf(other).localeCompare(timeOf(one)));
  return latest
    ? join(WHAT_IT_WARNS_OF[latest.reason] ?? `its pod waits (${latest.reason})`, latest.message)
    : null;
}

/** ISO times compare as texts. */
function timeOf({ lastTimestamp, eventTime }: z.infer<typeof WARNING>): string {
  return lastTimestamp ?? eventTime ?? "";
}
