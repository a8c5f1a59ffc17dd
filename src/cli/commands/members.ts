import type { Command } from "commander";
import { INVITATION, INVITATIONS, MADE_INVITATION, MEMBERS, REMOVED_MEMBER } from "../../shapes/people.ts";
import { usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { relative } from "../output/amounts.ts";
import { confirm } from "../output/confirm.ts";
import { printable } from "../output/paint.ts";
import { table } from "../output/table.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";

type InviteFlags = RemoteFlags & { readonly role?: string; readonly mail?: boolean };
type YesFlags = RemoteFlags & { readonly yes?: boolean };

/** `millrace members list|invite|invitations|revoke|remove` */
export function defineMembers(command: Command): void {
  const list = remote(command.command("list")).description("list the project's members");
  examples(list, "millrace members list").action(withService(listMembers));

  const invite = remote(command.command("invite")).description(
    "create a one-time link that lets somebody join the project; it is shown only once",
  );
  invite
    .argument("<email>", "the person's address; anyone with the link can join")
    .option("--role <role>", "member or owner", "member")
    .option("--mail", "mail the link to that address instead of showing it");
  examples(invite, "millrace members invite ada@example.com --role owner").action(withService(inviteMember));

  const invitations = remote(command.command("invitations")).description("list unused invitations");
  examples(invitations, "millrace members invitations").action(withService(listInvitations));

  const revoke = remote(command.command("revoke")).description("revoke an invitation");
  revoke.argument("<invitation>", "the invitation's id, or its address if that is unambiguous");
  examples(revoke, "millrace members revoke ada@example.com").action(withService(revokeInvitation));

  const remove = remote(command.command("remove")).description("remove a member from the project");
  remove
    .argument("<member>", "the member's id, or their address if that is unambiguous")
    .option("--yes", "do not ask for confirmation");
  examples(remove, "millrace members remove ada@example.com --yes").action(withService(removeMember));
}

async function listMembers({ api, out }: Task): Promise<void> {
  const members = await api.get(MEMBERS, await api.path("members"));
  out.show(members, () =>
    table(
      ["ID", "E-MAIL", "PROVEN", "ROLE", "SINCE"],
      members.map(({ personId, email, isProven, role, createdAt }) => [
        personId,
        printable(email),
        isProven ? "yes" : "no",
        role,
        relative(createdAt),
      ]),
    ),
  );
}

async function inviteMember({ api, flags, out }: Task<InviteFlags>, email: string): Promise<void> {
  const body = { email, role: flags.role, send: flags.mail ? "mail" : "link" };
  const made = await api.ask(MADE_INVITATION, "POST", await api.path("invitations"), { body });
  // The link alone on stdout, so that a script can take it.
  out.show(made, () => (made.inviteUrl === null ? "" : `${made.inviteUrl}\n`));
  const what =
    made.inviteUrl === null ? `mailed to ${printable(made.email)}` : "it is shown only once, so pass it on";
  out.note(`invitation ${made.id}, role ${made.role}, expires ${made.expiresAt}; ${what}.`);
}

async function listInvitations({ api, out }: Task): Promise<void> {
  const invitations = await api.get(INVITATIONS, await api.path("invitations"));
  out.show(invitations, () =>
    table(
      ["ID", "FOR", "ROLE", "LINK", "EXPIRES"],
      invitations.map(({ id, email, role, isMailed, mailedAt, expiresAt }) => [
        id,
        printable(email),
        role,
        !isMailed ? "shown" : mailedAt === null ? "not mailed yet" : `mailed ${relative(mailedAt)}`,
        relative(expiresAt),
      ]),
    ),
  );
}

async function revokeInvitation({ api, out }: Task, wanted: string): Promise<void> {
  const invitations = await api.get(INVITATIONS, await api.path("invitations"));
  const { id, email } = theOne(invitations, wanted, "millrace members invitations");
  const answer = await api.ask(INVITATION, "DELETE", await api.path(`invitations/${id}`));
  out.show(answer, () => `The invitation for ${printable(email)} is revoked.\n`);
}

async function removeMember(task: Task<YesFlags>, wanted: string): Promise<void> {
  const { api, flags, out, signal } = task;
  const members = await api.get(MEMBERS, await api.path("members"));
  const entries = members.map((member) => ({ ...member, id: member.personId }));
  const { id, email } = theOne(entries, wanted, "millrace members list");
  await confirm(`Remove ${printable(email)} (${id}) from the project?`, flags, signal);
  const answer = await api.ask(REMOVED_MEMBER, "DELETE", await api.path(`members/${id}`));
  out.show(answer, () => `${printable(email)} is no longer in the project.\n`);
}

/** By id, or by an address that only one has. */
function theOne<Entry extends { readonly id: string; readonly email: string }>(
  entries: readonly Entry[],
  wanted: string,
  shownBy: string,
): Entry {
  const byEmail = entries.filter(({ email }) => email === wanted.toLowerCase());
  const found = entries.find(({ id }) => id === wanted) ?? (byEmail.length === 1 ? byEmail[0] : undefined);
  if (found) return found;
  const problem = byEmail.length > 1 ? "several people have the address" : "no member or invitation matches";
  throw usage(`${problem} ${JSON.stringify(wanted)}`, `${shownBy} shows the ids`);
}
