import { readSettings } from "../config/settings.ts";
import { askOperator } from "./ask-operator.ts";
import { CliFailure, usage } from "./failure.ts";
import type { ServeFlags } from "./serve.ts";

/** `millrace reset-password`: a link by which somebody who forgot their password chooses another. */
export async function resetPassword(email: string, flags: ServeFlags): Promise<void> {
  if (!email.includes("@")) throw usage(`${email} is no e-mail address`);
  const { settings } = readSettings({ flags, env: process.env });
  const link = await askOperator(settings, "passwordLink", { email });
  if (!link) {
    const hint = "an owner of a project can invite them: the dashboard's Settings, Members";
    throw new CliFailure(`nobody signs in as ${email}`, { hint });
  }
  const { url, isFirst } = link;
  if (flags["json"]) {
    process.stdout.write(`${JSON.stringify({ url, is_first: isFirst })}\n`);
    return;
  }
  const words = isFirst
    ? "Nobody can sign in yet. Whoever opens this link becomes the first person:"
    : `By this link ${email} chooses a new password, once and within 7 days; until then the old one stays:`;
  process.stdout.write(`${words}\n${url}\n`);
}
