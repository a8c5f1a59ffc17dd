import type { Operation } from "./api/operation.ts";
import { appChangeOperations, appOperations } from "./apps/apps.ts";
import { deployOperations } from "./apps/deploys.ts";
import { logOperations } from "./apps/logs.ts";
import { queueHistoryOperations, queueOperations } from "./apps/queues.ts";
import { scheduleOperations } from "./apps/schedules.ts";
import { hardwareOperations } from "./installation/hardware.ts";
import { installationOperations } from "./installation/installation.ts";
import type { ManagementParts } from "./parts.ts";
import { accountOperations, signInOperations } from "./people/sign-in.ts";
import { tokenOperations } from "./people/tokens.ts";
import { invitationLinkOperations, memberOperations } from "./projects/members.ts";
import { auditOperations, projectOperations } from "./projects/projects.ts";
import { secretOperations } from "./projects/secrets.ts";
import { serviceAccountOperations } from "./projects/service-accounts.ts";
import { volumeOperations } from "./projects/volumes.ts";
import { webhookOperations } from "./projects/webhooks.ts";
import { batchOperations } from "./runs/batches.ts";
import { figureOperations } from "./runs/figures.ts";
import { runOnceOperations } from "./runs/file-runs.ts";
import { bulkOperations } from "./runs/bulk.ts";
import { runOperations } from "./runs/runs.ts";
import { usageOperations } from "./runs/usage.ts";

/** Every operation of the management API, in the order its document shows them. */
export function allOperations(parts: ManagementParts): Operation[] {
  return [
    ...serviceAccountOperations(parts),
    ...projectOperations(parts),
    ...memberOperations(parts),
    ...appOperations(parts),
    ...runOperations(parts),
    ...bulkOperations(parts),
    ...queueHistoryOperations(parts),
    ...logOperations(parts),
    ...figureOperations(parts),
    ...usageOperations(parts),
    ...deployOperations(parts),
    ...appChangeOperations(parts),
    ...queueOperations(parts),
    ...scheduleOperations(parts),
    ...batchOperations(parts),
    ...runOnceOperations(parts),
    ...secretOperations(parts),
    ...volumeOperations(parts),
    ...webhookOperations(parts),
    ...auditOperations(parts),
    ...signInOperations(parts),
    ...invitationLinkOperations(parts),
    ...accountOperations(parts),
    ...tokenOperations(parts),
    ...hardwareOperations(parts),
    ...installationOperations(parts),
  ];
}
