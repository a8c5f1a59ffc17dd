import { ApiError, type KubernetesApi } from "./api.ts";
import { backoffMs, retry } from "../../kit/retry.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Workload } from "../engine.ts";
import type { SeatOrder } from "../agent/seat-place.ts";
import { SEAT, labelsOf, ownerName } from "./labels.ts";
import { networkPolicies, type PolicyParts } from "./network-policies.ts";
import { podName, podOf, type PodParts, secretOf } from "./pod-spec.ts";
import { lastWarning, readPod } from "./pod-state.ts";

export type PodApiParts = {
  readonly api: KubernetesApi;
  readonly clock: Clock;
  readonly pod: PodParts;
  readonly policies: Omit<PolicyParts, "installationId">;
  readonly stopped: AbortSignal;
  /** The cluster refuses to remove a pod; removal is retried. */
  readonly onRefused: (error: ApiError) => void;
};

const CORE = "api/v1";
const NETWORKING = "apis/networking.k8s.io/v1";
const APPLY = {
  contentType: "application/apply-patch+yaml",
  query: { fieldManager: "millrace", force: "true" },
};
/** With a grace period of 0, the cluster would forget a pod before it has ended. */
const KILL_SECONDS = 1;
const MAX_EVENTS = "50";
const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 5_000;

export class PodApi {
  readonly #parts: PodApiParts;
  #owner: Promise<string> | null = null;

  constructor(parts: PodApiParts) {
    this.#parts = parts;
  }

  /** Creates what all pods need, unless it exists: the object that owns them, and the network policies. */
  async prepare(): Promise<string> {
    this.#owner ??= this.#prepare();
    try {
      return await this.#owner;
    } catch (error) {
      this.#owner = null;
      throw error;
    }
  }

  /** The owner may have been removed: it is created again before the next pod. */
  forget(): void {
    this.#owner = null;
  }

  /** Creates the pod of a seat and its secret. May be retried: it never creates a second pod. */
  async create(order: SeatOrder, workload: Workload): Promise<void> {
    const { api, pod, stopped: signal } = this.#parts;
    const owner = await this.prepare();
    const name = podName(order.seatId, workload);
    const uid = await this.#createPod(order.seatId, name, podOf(pod, owner, order, workload));
    const path = api.pathOf(CORE, "secrets");
    const body = secretOf(pod, { name, uid }, order);
    await api.ask({ method: "POST", path, body, signal }).catch(unlessThere);
  }

  /** Removes a pod, with retries; returns true if it was already gone, or if the service stopped. */
  async remove(name: string, uid?: string): Promise<boolean> {
    const { api, clock, stopped } = this.#parts;
    const body = {
      apiVersion: "v1",
      kind: "DeleteOptions",
      gracePeriodSeconds: KILL_SECONDS,
      ...(uid !== undefined && { preconditions: { uid } }),
    };
    const path = api.pathOf(CORE, "pods", name);
    let wasTold = false;
    const isThere = await retry(
      async () => {
        await api.ask({ method: "DELETE", path, body, signal: stopped });
        return true;
      },
      {
        clock,
        delayMs: (failures) => backoffMs(failures, FIRST_WAIT_MS, LONGEST_WAIT_MS),
        shouldRetry: (error) => {
          if (isGone(error) || stopped.aborted) return false;
          if (!wasTold && error instanceof ApiError && !error.isTransient) this.#parts.onRefused(error);
          wasTold = true;
          return true;
        },
        signal: stopped,
      },
    );
    return isThere === null;
  }

  /** The cluster's last warning about a pod; null if there is none, or it cannot be read. */
  async lastWarning(name: string): Promise<string | null> {
    const { api, stopped: signal } = this.#parts;
    const query = { fieldSelector: `involvedObject.name=${name},type=Warning`, limit: MAX_EVENTS };
    try {
      return lastWarning(await api.ask({ method: "GET", path: api.pathOf(CORE, "events"), query, signal }));
    } catch {
      // Warnings only explain. `doctor` reports missing permissions, and the watch reports that the API does not answer.
      return null;
    }
  }

  async #createPod(seatId: string, name: string, body: object): Promise<string> {
    const { api, stopped: signal } = this.#parts;
    const answer = await api
      .ask({ method: "POST", path: api.pathOf(CORE, "pods"), body, signal })
      .catch(async (error: unknown) => {
        unlessThere(error);
        // An earlier attempt, whose answer was lost, created it.
        return await api.ask({ method: "GET", path: api.pathOf(CORE, "pods", name), signal });
      });
    const made = readPod(answer);
    if (made?.seatId !== seatId) throw new Error(`another pod has the name of a seat (label ${SEAT})`);
    return made.uid;
  }

  async #prepare(): Promise<string> {
    const { api, pod, policies, stopped: signal } = this.#parts;
    const { installationId } = pod.whose;
    const name = ownerName(installationId);
    const owner = await api.ask({
      method: "PATCH",
      path: api.pathOf(CORE, "configmaps", name),
      ...APPLY,
      body: {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name, labels: labelsOf(installationId) },
        data: {
          about: "Owns all that this installation of Millrace has here. Delete it to remove all of that.",
        },
      },
      signal,
    });
    const uid = (owner as { metadata?: { uid?: unknown } } | null)?.metadata?.uid;
    if (typeof uid !== "string") throw new Error("the Kubernetes API made an object without a uid");
    for (const policy of networkPolicies({ ...policies, installationId }, uid)) {
      const path = api.pathOf(NETWORKING, "networkpolicies", policy.name);
      await api.ask({ method: "PATCH", path, ...APPLY, body: policy.object, signal });
    }
    return uid;
  }
}

function unlessThere(error: unknown): void {
  if (!(error instanceof ApiError && error.reason === "AlreadyExists")) throw error;
}

/** The pod is gone, or its name belongs to another pod. */
function isGone(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 409);
}
