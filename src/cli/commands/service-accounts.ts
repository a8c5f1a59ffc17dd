import type { Command } from "commander";
import { parseDuration } from "../../kit/duration.ts";
import { ACCOUNTS, ACCOUNT_WITH_TOKEN, LISTED_ACCOUNT, USER_TOKEN } from "../../shapes/accounts.ts";
import type { AccountWithToken, ListedAccount } from "../../shapes/accounts.ts";
import { usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { relative } from "../output/amounts.ts";
import { confirm } from "../output/confirm.ts";
import { paint, printableName } from "../output/paint.ts";
import { table } from "../output/table.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";

type CreateFlags = RemoteFlags & {
  readonly role?: string;
  readonly expires?: string;
  readonly description?: string;
  readonly app?: readonly string[];
  readonly function?: readonly string[];
  readonly origin?: readonly string[];
  readonly callsPerMinute?: string;
};
type TokenFlags = RemoteFlags & { readonly user: string; readonly expires: string };
type RotateFlags = RemoteFlags & { readonly expires?: string; readonly overlap: string };

/** `millrace service-accounts create|list|token|rotate|delete` */
export function defineServiceAccounts(command: Command): void {
  const create = remote(command.command("create")).description(
    "create an account; its token is shown only once",
  );
  create
    .argument("<name>", "a name that says what it is for")
    .option("--role <role>", "call, run, deploy or admin (default: admin)")
    .option("--app <name>", "with the role call: an app it may call; may be repeated", collect)
    .option("--function <name>", "with the role call: a function it may call; may be repeated", collect)
    .option(
      "--origin <origin>",
      "with the role call: an origin whose pages may use it; may be repeated",
      collect,
    )
    .option("--calls-per-minute <count>", "with the role call: how many calls each end user may make")
    .option("--expires <time>", "a date, an RFC 3339 time, or a duration from now such as 30d")
    .option("--description <text>", "a longer description");
  examples(
    create,
    "millrace service-accounts create ci --role deploy --expires 30d",
    "millrace service-accounts create shop --role call --app hello --origin https://shop.example.com",
  ).action(withService(createAccount));

  const list = remote(command.command("list")).description(
    "list the project's accounts, including revoked ones",
  );
  examples(list, "millrace service-accounts list").action(withService(listAccounts));

  const token = remote(command.command("token")).description(
    "create a token for one end user of an account with the role call",
  );
  token
    .argument("<account>", "the account's id, or its name if that is unambiguous")
    .requiredOption("--user <id>", "your own id of the user: runs belong to the account and this user")
    .option("--expires <duration>", "how long the token works, at most 24h", "1h");
  examples(token, "millrace service-accounts token shop --user ada --expires 15m").action(
    withService(createUserToken),
  );

  const rotate = remote(command.command("rotate")).description("issue a new token for an account");
  rotate
    .argument("<account>", "the account's id, or its name if that is unambiguous")
    .option("--overlap <duration>", "how long the old token keeps working", "0s")
    .option("--expires <time>", "a date, an RFC 3339 time, or a duration from now such as 30d");
  examples(rotate, "millrace service-accounts rotate ci --overlap 1h").action(withService(rotateAccount));

  const remove = remote(command.command("delete")).description("revoke an account; its token stops working");
  remove
    .argument("<account>", "the account's id, or its name if that is unambiguous")
    .option("--yes", "do not ask for confirmation");
  examples(remove, "millrace service-accounts delete ci --yes").action(withService(deleteAccount));
}

async function createAccount({ api, flags, out }: Task<CreateFlags>, name: string): Promise<void> {
  const { role, description, app: apps, function: functions, origin: origins } = flags;
  const expiresAt = readExpiry(flags.expires);
  const callsPerMinute = readCount("--calls-per-minute", flags.callsPerMinute);
  const body = { name, role, description, apps, functions, origins, callsPerMinute, expiresAt };
  const made = await api.ask(ACCOUNT_WITH_TOKEN, "POST", await api.path("service-accounts"), { body });
  showToken({ out }, made);
}

async function listAccounts({ api, out }: Task): Promise<void> {
  const accounts = await api.get(ACCOUNTS, await api.path("service-accounts"));
  out.show(accounts, () =>
    table(
      ["ID", "NAME", "ROLE", "EXPIRES", "LAST USED"],
      accounts.map((account) => [
        account.id,
        printableName(account.name),
        account.apps ? `${account.role}: ${account.apps.join(", ")}` : account.role,
        account.revokedAt ? paint("red", "revoked") : relative(account.expiresAt),
        relative(account.lastUsedAt),
      ]),
    ),
  );
}

async function createUserToken({ api, flags, out }: Task<TokenFlags>, wanted: string): Promise<void> {
  const expiresInSeconds = readSeconds("--expires", flags.expires);
  // Whoever may create these tokens may not list accounts: an id is taken as it is.
  const id = wanted.startsWith("sa-") ? wanted : (await find({ api }, wanted)).id;
  const body = { user: flags.user, expiresInSeconds };
  const path = await api.path(`service-accounts/${encodeURIComponent(id)}/tokens`);
  const made = await api.ask(USER_TOKEN, "POST", path, { body });
  out.show(made, () => `${made.token}\n`);
  out.note(`a token for the user ${printableName(flags.user)}, expires ${made.expiresAt}.`);
}

async function rotateAccount({ api, flags, out }: Task<RotateFlags>, wanted: string): Promise<void> {
  const overlapSeconds = readSeconds("--overlap", flags.overlap);
  const body = { overlapSeconds, expiresAt: readExpiry(flags.expires) };
  const { id } = await find({ api }, wanted);
  const path = await api.path(`service-accounts/${id}/rotate`);
  showToken({ out }, await api.ask(ACCOUNT_WITH_TOKEN, "POST", path, { body }));
}

async function deleteAccount(task: Task<RemoteFlags & { yes?: boolean }>, wanted: string): Promise<void> {
  const { api, flags, out, signal } = task;
  const { id, name } = await find(task, wanted);
  await confirm(`Revoke the account ${name} (${id})?`, flags, signal);
  const answer = await api.ask(LISTED_ACCOUNT, "DELETE", await api.path(`service-accounts/${id}`));
  out.show(answer, () => `${printableName(name)} is revoked.\n`);
}

/** By id, or by a name that one living account has. */
async function find({ api }: Pick<Task, "api">, wanted: string): Promise<ListedAccount> {
  const accounts = await api.get(ACCOUNTS, await api.path("service-accounts"));
  const byId = accounts.find(({ id }) => id === wanted);
  const byName = accounts.filter(({ name, revokedAt }) => name === wanted && !revokedAt);
  const found = byId ?? (byName.length === 1 ? byName[0] : undefined);
  if (found) return found;
  const problem = byName.length > 1 ? "several accounts have the name" : "there is no account";
  throw usage(`${problem} ${JSON.stringify(wanted)}`, "millrace service-accounts list shows their ids");
}

/** The token alone on stdout, so that a script can take it. */
function showToken({ out }: Pick<Task, "out">, account: AccountWithToken): void {
  out.show(account, () => `${account.token}\n`);
  out.note(
    `account ${account.id}, role ${account.role}, expires ${account.expiresAt}. The token is shown only once: copy it.`,
  );
}

function readSeconds(option: string, text: string): number {
  const seconds = parseDuration(text);
  if (seconds === null) throw usage(`${option} takes a duration, not ${JSON.stringify(text)}`);
  return Math.round(seconds);
}

function readCount(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text)) throw usage(`${option} takes a whole number, not ${JSON.stringify(text)}`);
  return Number(text);
}

function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

/** A duration becomes a time; what else was typed is for the service to judge. */
function readExpiry(text: string | undefined): string | undefined {
  const seconds = text === undefined ? null : parseDuration(text);
  return seconds === null ? text : new Date(Date.now() + seconds * 1000).toISOString();
}
