import { createHash } from "node:crypto";

/** A project id: `p-` and an identifier, of which we make 8 letters or digits. */
export const PROJECT_ID = /^p-[a-z0-9]{1,40}$/;

/** An app's name, unique within its project. */
export const APP_NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** A function that may be called from outside; a leading underscore keeps a name private. */
export const FUNCTION_NAME = /^[A-Za-z][A-Za-z0-9_]{0,127}$/;

/** The function that a replica calls itself before its first call; callers cannot. */
export const SETUP_FUNCTION = "setup";

/** A run's id: a UUID in its usual text form, lower case. */
export const RUN_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The app id of the management API. */
export function appId(projectId: string, appName: string): string {
  return `${projectId}-${appName}`;
}

/** An app as a host label identifies it. */
export type HostedApp = { readonly projectId: string; readonly appName: string };

/** The maximum length of a DNS label (RFC 1035). */
const MAX_LABEL_CHARS = 63;
const SEPARATOR = "--";
/** How much of the app's name a hashed label keeps, so that it stays readable. */
const NAME_CHARS = 40;
/** 100 bits, so that collisions cannot be constructed. */
const HASH_CHARS = 20;
const HASHED = /^[a-z0-9-]{1,40}-[a-z2-7]{20}$/;
/** RFC 4648, in lower case. */
const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
/** The prefix of internationalized labels, which browsers decode or reject. */
const PUNYCODE = "xn";

/** The label of an app's host: `{app}--{project}`, if too long the app's name shortened and a hash; null for no host. */
export function hostLabel({ projectId, appName }: HostedApp): string | null {
  if (appName === PUNYCODE || appName.startsWith(PUNYCODE + SEPARATOR)) return null;
  const label = appName + SEPARATOR + projectId;
  if (label.length <= MAX_LABEL_CHARS) return label;
  return `${appName.slice(0, NAME_CHARS)}-${base32(createHash("sha256").update(label).digest(), HASH_CHARS)}`;
}

/** The label of an app if it is hashed; null otherwise. */
export function hashedLabel(app: HostedApp): string | null {
  const label = hostLabel(app);
  return label === null || label === app.appName + SEPARATOR + app.projectId ? null : label;
}

/** Whether a label has the form of a hashed one. */
export function mayBeHashed(label: string): boolean {
  return HASHED.test(label);
}

/** The app that an unhashed label names; null if the label has another form. */
export function readHostLabel(label: string): HostedApp | null {
  const at = label.lastIndexOf(SEPARATOR);
  const app = { appName: label.slice(0, at), projectId: label.slice(at + SEPARATOR.length) };
  if (at === -1 || !APP_NAME.test(app.appName) || !PROJECT_ID.test(app.projectId)) return null;
  // Each app has exactly one host: the unhashed form of a long label is not accepted.
  return hostLabel(app) === label ? app : null;
}

function base32(bytes: Buffer, chars: number): string {
  let text = "";
  for (let bit = 0; text.length < chars; bit += 5) {
    const pair = bytes.readUInt16BE(bit >> 3);
    text += BASE32[(pair >> (11 - (bit & 7))) & 31];
  }
  return text;
}
