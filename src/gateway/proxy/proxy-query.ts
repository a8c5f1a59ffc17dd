import { readQuery } from "../query.ts";
import type { RunQuery } from "../query.ts";

const OURS = new Set(["async", "webhookEndpoint"]);
const MAY_BE_OURS = /async|webhookEndpoint|%/i;
const PLAIN: RunQuery = { isAsync: false, webhookEndpoint: null };

/** What a target's query asks of us, and the target as the app is to see it: without that, and else as it came. */
export type ProxyTarget = { readonly target: string; readonly query: RunQuery };

/** Takes what is ours out of a query. Other methods than POST leave everything to the app. */
export function readTarget(target: string, method: string): ProxyTarget {
  const mark = method === "POST" ? target.indexOf("?") : -1;
  if (mark === -1) return { target, query: PLAIN };
  const text = target.slice(mark + 1);
  if (!MAY_BE_OURS.test(text)) return { target, query: PLAIN };
  const kept = text.split("&").filter((part) => !OURS.has(nameOf(part)));
  const path = target.slice(0, mark);
  return { target: kept.length === 0 ? path : `${path}?${kept.join("&")}`, query: readQuery(text) };
}

/** As the query's reader understands it. */
function nameOf(part: string): string {
  const [name] = new URLSearchParams(part).keys();
  return name ?? "";
}
