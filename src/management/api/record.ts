import type { Audit, Change } from "../../identity/audit.ts";
import type { Call } from "./operation.ts";

/** Writes down what a call has changed in the project of its path. */
export async function record(
  audit: Pick<Audit, "record">,
  call: Call<{ readonly project_id: string }, unknown, unknown>,
  change: Pick<Change, "action" | "target" | "before" | "after">,
): Promise<void> {
  const { params, principal, ip, requestId } = call;
  await audit.record({ ...change, projectId: params.project_id, principal, ip, requestId });
}
