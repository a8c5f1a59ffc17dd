import { Batches } from "../../src/replicas/slots/batches.ts";
import type { SlotCall } from "../../src/replicas/slots/capacity.ts";
import { FIXED_PREFIX } from "./settings.ts";

// Loaded into the benchmark's service before anything else (`node --import`). Batches of functions with a certain prefix
// leave by a fixed policy: when they are full, or `max_wait` after they could have left.

const decide = Reflect.get(Batches.prototype, "decide") as Batches<SlotCall>["decide"];

Batches.prototype.decide = function (group, moment) {
  if (!group.functionName.startsWith(FIXED_PREFIX)) return decide.call(this, group, moment);
  const { size, isClosed, enqueuedAt, rules } = group;
  const freeMs = moment.now - Math.max(moment.freedAt, enqueuedAt);
  const waitMs = rules.maxWaitSeconds * 1000 - freeMs;
  if (isClosed || waitMs <= 0 || moment.isDraining)
    return { leaves: true, size, reason: isClosed ? "full" : moment.isDraining ? "drain" : "window" };
  return { leaves: false, waitMs };
};
