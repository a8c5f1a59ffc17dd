import { readSettings } from "../../config/settings.ts";
import type { PasswordLink } from "../../identity/identity-parts.ts";
import { askOperator } from "../ask-service.ts";
import { CliFailure, usage } from "../failure.ts";
import type { OperatorFlags } from "../options.ts";
import { Output } from "../output.ts";

/** `millrace bootstrap`: creates the default project and the owner's token once, and prints them every time. */
export async function bootstrap(flags: OperatorFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const { projectId, token, apiUrl, baseUrl } = await askOperator(settings, "bootstrap");
  const fields = { project_id: projectId, token, api_url: apiUrl, base_url: baseUrl };
  const lines = Object.entries(fields).map(([name, value]) => `${name.padEnd(12)}${value}\n`);
  new Output(flags).show(fields, () => lines.join(""));
}

/** `millrace reset-password`: prints a password-reset link. */
export async function resetPassword(who: string, flags: OperatorFlags): Promise<void> {
  const isId = who.startsWith("u-");
  if (!isId && !who.includes("@")) throw usage(`${who} is not an e-mail address`);
  const { settings } = readSettings({ flags, env: process.env });
  const link = await askOperator(settings, "passwordLink", isId ? { personId: who } : { email: who });
  if (link.url === null) throw notOneAccount(who, link);
  const { url, isFirst } = link;
  const words = isFirst
    ? "Nobody can sign in yet. Open this link to create the first account:"
    : `With this link ${who} can choose a new password. It works once and expires in 7 days:`;
  new Output(flags).show({ url, is_first: isFirst }, () => `${words}\n${url}\n`);
}

/** The failure if no account has the address, or several. */
function notOneAccount(who: string, { people }: PasswordLink): CliFailure {
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

/** `millrace rotate-keys`: tokens are signed with a new key from now on. */
export async function rotateKeys(flags: OperatorFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const [signing, before] = (await askOperator(settings, "rotateKeys")).keys;
  new Output(flags).show(
    { signing, before },
    () =>
      `Tokens are now signed with the key ${signing}, including the owner's.\n` +
      `Tokens signed with the key ${before} stay valid until the next rotation: replace them before then.\n`,
  );
}
