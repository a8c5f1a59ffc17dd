import { INVITATION, INVITATIONS, MADE_INVITATION, MEMBERS, REMOVED_MEMBER } from "../../shapes/people.ts";
import { type Definitions } from "../options.ts";
import { printable, relative } from "../output.ts";
import { confirm } from "../terminal.ts";
import { asking, type RemoteFlags, type Task, theOne, YES_OPTION, type YesFlags } from "./task.ts";

type InviteFlags = RemoteFlags & { readonly role?: string; readonly mail?: boolean };

export const COMMANDS: Definitions = {
  members(command) {
    asking(command, "list", "list the project's members", listMembers);
    asking(
      command,
      "invite",
      "create a one-time link that lets one person join the project; it is shown only once",
      inviteMember,
      "ada@example.com --role owner",
    )
      .argument("<email>", "the person's address; anyone with the link can join")
      .option("--role <role>", "member or owner", "member")
      .option("--mail", "mail the link to that address instead of showing it");
    asking(command, "invitations", "list unused invitations", listInvitations);
    asking(command, "revoke", "revoke an invitation", revokeInvitation, "ada@example.com").argument(
      "<invitation>",
      "the invitation's id, or its address if that is unambiguous",
    );
    asking(command, "remove", "remove a member from the project", removeMember, "ada@example.com --yes")
      .argument("<member>", "the member's id, or their address if that is unambiguous")
      .option(...YES_OPTION);
  },
};

async function listMembers({ api, out }: Task): Promise<void> {
  out.list(await api.get(MEMBERS, await api.path("members")), {
    ID: ({ personId }) => personId,
    "E-MAIL": ({ email }) => printable(email),
    PROVEN: ({ isProven }) => (isProven ? "yes" : "no"),
    ROLE: ({ role }) => role,
    SINCE: ({ createdAt }) => relative(createdAt),
  });
}

async function inviteMember({ api, flags, out }: Task<InviteFlags>, email: string): Promise<void> {
  const body = { email, role: flags.role, send: flags.mail ? "mail" : "link" };
  const made = await api.ask(MADE_INVITATION, "POST", await api.path("invitations"), { body });
  // The link alone on stdout, so that a script can take it.
  out.show(made, () => (made.inviteUrl === null ? "" : `${made.inviteUrl}\n`));
  const mailed = `mailed to ${printable(made.email)}`;
  const what = made.inviteUrl === null ? mailed : "it is shown only once, so pass it on";
  out.note(`invitation ${made.id}, role ${made.role}, expires ${made.expiresAt}; ${what}.`);
}

async function listInvitations({ api, out }: Task): Promise<void> {
  out.list(await api.get(INVITATIONS, await api.path("invitations")), {
    ID: ({ id }) => id,
    FOR: ({ email }) => printable(email),
    ROLE: ({ role }) => role,
    LINK: ({ isMailed, mailedAt }) =>
      !isMailed ? "shown" : mailedAt === null ? "not mailed yet" : `mailed ${relative(mailedAt)}`,
    EXPIRES: ({ expiresAt }) => relative(expiresAt),
  });
}

async function revokeInvitation({ api, out }: Task, wanted: string): Promise<void> {
  const invitations = await api.get(INVITATIONS, await api.path("invitations"));
  const { id, email } = byIdOrEmail(invitations, wanted, "millrace members invitations");
  const answer = await api.ask(INVITATION, "DELETE", await api.path(`invitations/${id}`));
  out.show(answer, () => `The invitation for ${printable(email)} is revoked.\n`);
}

async function removeMember({ api, flags, out, signal }: Task<YesFlags>, wanted: string): Promise<void> {
  const members = await api.get(MEMBERS, await api.path("members"));
  const entries = members.map((member) => ({ ...member, id: member.personId }));
  const { id, email } = byIdOrEmail(entries, wanted, "millrace members list");
  await confirm(`Remove ${printable(email)} (${id}) from the project?`, flags, signal);
  const answer = await api.ask(REMOVED_MEMBER, "DELETE", await api.path(`members/${id}`));
  out.show(answer, () => `${printable(email)} is no longer in the project.\n`);
}

function byIdOrEmail<Entry extends { readonly id: string; readonly email: string }>(
  entries: readonly Entry[],
  wanted: string,
  shownBy: string,
): Entry {
  return theOne(entries, wanted, ({ email }) => email === wanted.toLowerCase(), {
    none: "no member or invitation matches",
    several: "several people have the address",
    hint: `${shownBy} shows the ids`,
  });
}
