import type { AnyOperation } from "./api/operation.ts";
import { appChangeOperations } from "./app-changes.ts";
import type { AppChangeParts } from "./app-changes.ts";
import { appOperations } from "./apps.ts";
import type { AppParts } from "./apps.ts";
import { auditOperations } from "./audit.ts";
import type { AuditParts } from "./audit.ts";
import { buildOperations } from "./builds.ts";
import type { BuildParts } from "./builds.ts";
import { configurationOperations } from "./configuration.ts";
import type { ConfigurationParts } from "./configuration.ts";
import { deliveryOperations } from "./deliveries.ts";
import type { DeliveryParts } from "./deliveries.ts";
import { deployOperations } from "./deploys.ts";
import type { DeployParts } from "./deploys.ts";
import { deviceOperations } from "./devices.ts";
import type { DeviceParts } from "./devices.ts";
import { figureOperations } from "./figures.ts";
import type { FigureParts } from "./figures.ts";
import { hardwareOperations } from "./hardware.ts";
import { invitationLinkOperations } from "./invitation-links.ts";
import { invitationOperations } from "./invitations.ts";
import type { InvitationParts } from "./invitations.ts";
import { isolationOperations } from "./isolation.ts";
import type { IsolationParts } from "./isolation.ts";
import { jwksOperations } from "./jwks.ts";
import type { JwksParts } from "./jwks.ts";
import { logOperations } from "./logs.ts";
import type { LogParts } from "./logs.ts";
import { meOperations } from "./me.ts";
import type { MeParts } from "./me.ts";
import { memberOperations } from "./members.ts";
import type { MemberParts } from "./members.ts";
import { myAddressOperations } from "./my-address.ts";
import type { MyAddressParts } from "./my-address.ts";
import { nodeOperations } from "./nodes.ts";
import type { NodeParts } from "./nodes.ts";
import { passwordLinkOperations } from "./password-links.ts";
import type { PasswordLinkParts } from "./password-links.ts";
import { projectOperations } from "./projects.ts";
import type { ProjectParts } from "./projects.ts";
import { runOnceOperations } from "./run-once.ts";
import type { RunOnceParts } from "./run-once.ts";
import { runOperations } from "./runs.ts";
import { secretOperations } from "./secrets.ts";
import type { SecretParts } from "./secrets.ts";
import { serviceAccountOperations } from "./service-accounts.ts";
import type { ServiceAccountParts } from "./service-accounts.ts";
import { signInOperations } from "./sign-in.ts";
import type { SignInParts } from "./sign-in.ts";
import { volumeFileOperations } from "./volume-files.ts";
import { volumeOperations } from "./volumes.ts";
import type { VolumeParts } from "./volumes.ts";
import { webhookSecretOperations } from "./webhook-secrets.ts";
import type { WebhookSecretParts } from "./webhook-secrets.ts";

/** What the operations need, all together. */
export type OperationParts = ServiceAccountParts &
  ProjectParts &
  AppParts &
  DeployParts &
  BuildParts &
  AppChangeParts &
  ConfigurationParts &
  RunOnceParts &
  LogParts &
  FigureParts &
  SecretParts &
  VolumeParts &
  DeliveryParts &
  WebhookSecretParts &
  AuditParts &
  SignInParts &
  MeParts &
  MyAddressParts &
  MemberParts &
  InvitationParts &
  PasswordLinkParts &
  DeviceParts &
  JwksParts &
  NodeParts &
  IsolationParts;

/** Every operation of the management API, in the order its document shows them. */
export function allOperations(parts: OperationParts): AnyOperation[] {
  return [
    ...serviceAccountOperations(parts),
    ...projectOperations(parts),
    ...memberOperations(parts),
    ...invitationOperations(parts),
    ...appOperations(parts),
    ...runOperations(parts),
    ...logOperations(parts),
    ...figureOperations(parts),
    ...deployOperations(parts),
    ...buildOperations(parts),
    ...appChangeOperations(parts),
    ...configurationOperations(parts),
    ...runOnceOperations(parts),
    ...secretOperations(parts),
    ...volumeOperations(parts),
    ...volumeFileOperations(parts),
    ...webhookSecretOperations(parts),
    ...deliveryOperations(parts),
    ...auditOperations(parts),
    ...signInOperations(parts),
    ...invitationLinkOperations(parts),
    ...passwordLinkOperations(parts),
    ...meOperations(parts),
    ...myAddressOperations(parts),
    ...deviceOperations(parts),
    ...jwksOperations(parts),
    ...hardwareOperations(),
    ...nodeOperations(parts),
    ...isolationOperations(parts),
  ];
}
