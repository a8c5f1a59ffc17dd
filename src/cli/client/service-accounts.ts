import { parseDuration } from "../../kit/units.ts";
import { ACCOUNT_WITH_TOKEN, ACCOUNTS, LISTED_ACCOUNT, USER_TOKEN } from "../../shapes/projects.ts";
import type { AccountWithToken, ListedAccount } from "../../shapes/projects.ts";
import { MAX_WEIGHT } from "../../model/queue-limits.ts";
import { quotaText } from "../../model/usage.ts";
import { usage } from "../failure.ts";
import { collect, type Definitions } from "../options.ts";
import { type Columns, type Output, paint, printableName, relative } from "../output.ts";
import { confirm } from "../terminal.ts";
import type { Api } from "./api.ts";
import { limiting, type QuotaFlags, quotasWith } from "./quotas.ts";
import { asking, count, seconds, theOne, YES_OPTION } from "./task.ts";
import type { Numbers, RemoteFlags, Task, Texts, YesFlags } from "./task.ts";

type CreateFlags = RemoteFlags &
  QuotaFlags &
  Texts<"role" | "expires" | "description"> &
  Numbers<"callsPerMinute" | "weight"> & {
    readonly [Name in "app" | "function" | "origin"]?: readonly string[];
  };
type ChangeFlags = RemoteFlags & QuotaFlags & Texts<"name" | "description"> & Numbers<"weight">;
type TokenFlags = RemoteFlags & { readonly user: string; readonly expires?: number };
type RotateFlags = RemoteFlags & { readonly expires?: string; readonly overlap: number };

const ACCOUNT = ["<account>", "the account's id, or its name if that is unambiguous"] as const;
const lifetime = seconds("--expires");
const rate = count("--calls-per-minute", 0, 999_999_999_999_999);
const WEIGHT = [
  "--weight <number>",
  `how many turns its waiting calls have, from 1 to ${MAX_WEIGHT} (default: 1)`,
  count("--weight", 1, MAX_WEIGHT),
] as const;
const EXPIRES = [
  "--expires <time>",
  "a date, an RFC 3339 time, or a duration from now such as 30d",
  readExpiry,
] as const;

export const COMMANDS: Definitions = {
  "service-accounts"(command) {
    const create = asking(
      command,
      "create",
      "create an account; its token is shown only once",
      createAccount,
      "ci --role deploy --expires 30d",
      "shop --role call --app hello --origin https://shop.example.com",
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
      .option("--calls-per-minute <count>", "with the role call: how many calls each end user may make", rate)
      .option(...WEIGHT)
      .option(...EXPIRES)
      .option("--description <text>", "a longer description");
    limiting(create);
    const change = asking(
      command,
      "change",
      "change an account; its tokens stay",
      changeAccount,
      "ci --weight 5",
      "ci --max-calls-per-minute 600 --max-gpu-seconds none",
    );
    change
      .argument(...ACCOUNT)
      .option(...WEIGHT)
      .option("--name <name>", "another name")
      .option("--description <text>", "another description");
    limiting(change);
    asking(command, "list", "list the project's accounts, including revoked ones", listAccounts);
    asking(
      command,
      "token",
      "create a token for one end user of an account with the role call",
      createUserToken,
      "shop --user ada --expires 15m",
    )
      .argument(...ACCOUNT)
      .requiredOption("--user <id>", "your own id of the user: runs belong to the account and this user")
      .option("--expires <duration>", "how long the token works, at most 24h (default: 1h)", lifetime);
    asking(command, "rotate", "issue a new token for an account", rotateAccount, "ci --overlap 1h")
      .argument(...ACCOUNT)
      .option("--overlap <duration>", "how long the old token keeps working", seconds("--overlap"), 0)
      .option(...EXPIRES);
    asking(command, "delete", "revoke an account; its token stops working", deleteAccount, "ci --yes")
      .argument(...ACCOUNT)
      .option(...YES_OPTION);
  },
};

async function createAccount({ api, flags, out }: Task<CreateFlags>, name: string): Promise<void> {
  const { role, description, app: apps, function: functions, origin: origins, callsPerMinute } = flags;
  const limits = { apps, functions, origins, callsPerMinute };
  const quotas = quotasWith(flags, null);
  const body = { name, role, description, weight: flags.weight, quotas, ...limits, expiresAt: flags.expires };
  showToken(out, await api.ask(ACCOUNT_WITH_TOKEN, "POST", await api.path("service-accounts"), { body }));
}

async function changeAccount({ api, flags, out }: Task<ChangeFlags>, wanted: string): Promise<void> {
  const { weight, name, description } = flags;
  const isLimited = quotasWith(flags, null) !== undefined;
  if (weight === undefined && name === undefined && description === undefined && !isLimited)
    throw usage("nothing to change: give --weight, --name, --description or a quota");
  const { id, quotas: before } = await find(api, wanted);
  const body = { weight, name, description, quotas: quotasWith(flags, before) };
  const account = await api.ask(LISTED_ACCOUNT, "PATCH", await api.path(`service-accounts/${id}`), { body });
  out.show(account, () => {
    const has = account.quotas ? ` Its quotas: ${quotaText(account.quotas)}.` : "";
    return `${printableName(account.name)} is changed. Its weight is ${account.weight}.${has}\n`;
  });
}

async function listAccounts({ api, out }: Task): Promise<void> {
  const accounts = await api.get(ACCOUNTS, await api.path("service-accounts"));
  const isLimited = accounts.some(({ quotas }) => quotas !== null);
  const ofQuotas: Columns<ListedAccount> = isLimited ? { QUOTAS: ({ quotas }) => quotaText(quotas) } : {};
  out.list(accounts, {
    ID: ({ id }) => id,
    NAME: ({ name }) => printableName(name),
    ROLE: ({ role, apps }) => (apps ? `${role}: ${apps.join(", ")}` : role),
    WEIGHT: ({ weight }) => String(weight),
    ...ofQuotas,
    EXPIRES: ({ revokedAt, expiresAt }) => (revokedAt ? paint("red", "revoked") : relative(expiresAt)),
    "LAST USED": ({ lastUsedAt }) => relative(lastUsedAt),
  });
}

async function createUserToken({ api, flags, out }: Task<TokenFlags>, wanted: string): Promise<void> {
  // The right to create these tokens does not include the right to list accounts: an id is taken as it is.
  const id = wanted.startsWith("sa-") ? wanted : (await find(api, wanted)).id;
  const body = { user: flags.user, expiresInSeconds: Math.round(flags.expires ?? 3_600) };
  const path = await api.path(`service-accounts/${encodeURIComponent(id)}/tokens`);
  const made = await api.ask(USER_TOKEN, "POST", path, { body });
  out.show(made, () => `${made.token}\n`);
  out.note(`a token for the user ${printableName(flags.user)}, expires ${made.expiresAt}.`);
}

async function rotateAccount({ api, flags, out }: Task<RotateFlags>, wanted: string): Promise<void> {
  const body = { overlapSeconds: Math.round(flags.overlap), expiresAt: flags.expires };
  const { id } = await find(api, wanted);
  const path = await api.path(`service-accounts/${id}/rotate`);
  showToken(out, await api.ask(ACCOUNT_WITH_TOKEN, "POST", path, { body }));
}

async function deleteAccount({ api, flags, out, signal }: Task<YesFlags>, wanted: string): Promise<void> {
  const { id, name } = await find(api, wanted);
  await confirm(`Revoke the account ${name} (${id})?`, flags, signal);
  const answer = await api.ask(LISTED_ACCOUNT, "DELETE", await api.path(`service-accounts/${id}`));
  out.show(answer, () => `${printableName(name)} is revoked.\n`);
}

/** By id, or by a name that only one account has that is not revoked. */
async function find(api: Api, wanted: string): Promise<ListedAccount> {
  const accounts = await api.get(ACCOUNTS, await api.path("service-accounts"));
  return theOne(accounts, wanted, ({ name, revokedAt }) => name === wanted && !revokedAt, {
    none: "there is no account",
    several: "several accounts have the name",
    hint: "millrace service-accounts list shows their ids",
  });
}

/** The token alone on stdout, so that a script can take it. */
function showToken(out: Output, account: AccountWithToken): void {
  out.show(account, () => `${account.token}\n`);
  const { id, role, expiresAt } = account;
  out.note(`account ${id}, role ${role}, expires ${expiresAt}. The token is shown only once: copy it.`);
}

/** A duration becomes a time; anything else is checked by the service. */
function readExpiry(text: string): string {
  const seconds = parseDuration(text);
  return seconds === null ? text : new Date(Date.now() + seconds * 1000).toISOString();
}
