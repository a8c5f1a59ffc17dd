import { readSettings } from "../config/settings.ts";
import type { PasswordLink } from "../identity/operator-requests.ts";
import { askOperator } from "./ask-operator.ts";
import { CliFailure, usage } from "./failure.ts";
import type { ServeFlags } from "./serve.ts";

/** `millrace reset-password`: prints a password-reset link. */
export async function resetPassword(who: string, flags: ServeFlags): Promise<void> {
  const isId = who.startsWith("u-");
  if (!isId && !who.includes("@")) throw usage(`${who} is not an e-mail address`);
  const { settings } = readSettings({ flags, env: process.env });
  const made = await askOperator(settings, "passwordLink", isId ? { personId: who } : { email: who });
  if (made.url === null) throw isMeantNot(who, made);
  const { url, isFirst } = made;
  if (flags["json"]) {
    process.stdout.write(`${JSON.stringify({ url, is_first: isFirst })}\n`);
    return;
  }
  const words = isFirst
    ? "Nobody can sign in yet. Open this link to create the first account:"
    : `With this link ${who} can choose a new password. It works once and expires in 7 days:`;
  process.stdout.write(`${words}\n${url}\n`);
}

function isMeantNot(who: string, { people }: PasswordLink): CliFailure {
  if (people.length === 0) {
    const hint = "the owner of a project can invite them in the dashboard: Settings, Members";
    return new CliFailure(`no account has the address ${who}`, { hint });
  }
  const details = people.map(({ id, projectIds, createdAt, provenAt }) => {
    const since = new Date(createdAt).toISOString().slice(0, 10);
    const projects = projectIds.length === 0 ? "no project" : projectIds.join(", ");
    return `${id}: since ${since}, in ${projects}${provenAt === null ? "" : ", address verified"}`;
  });
  const hint = "say which: millrace reset-password ID";
  return new CliFailure(`${people.length} accounts have the address ${who}`, { hint, details });
}
