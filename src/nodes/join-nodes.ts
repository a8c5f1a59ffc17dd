import type { Lifecycle } from "../kit/lifecycle.ts";
import { NodeLease } from "./lease.ts";
import { OwnNode } from "./own-node.ts";
import type { OwnNodeParts } from "./own-node.ts";

/** Joins the other services on the same Postgres; null for one that is the only one on its database. */
export async function joinNodes(
  parts: Omit<OwnNodeParts, "url" | "heir">,
  life: Lifecycle,
): Promise<OwnNode | null> {
  const { store, ownership } = parts;
  if (store.kind === "postgres")
    return await OwnNode.join(
      { ...parts, url: "https://127.0.0.1:1", heir: { prepare: async () => {}, adopt: async () => {} } },
      life,
    );
  await new NodeLease({ ...parts, id: ownership.owner, self: null }).begin();
  return null;
}
