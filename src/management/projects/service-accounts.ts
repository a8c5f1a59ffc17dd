import { z } from "zod";
import { AppError } from "../../model/errors.ts";
import { MAX_WEIGHT, USUAL_WEIGHT } from "../../model/queue-limits.ts";
import { APP_NAME, FUNCTION_NAME } from "../../model/names.ts";
import { storedLimits } from "../../identity/token-judge.ts";
import { type CallLimits, type Role, ROLES } from "../../model/roles.ts";
import { packQuotas, readQuotas } from "../../model/usage.ts";
import { ACCOUNT_WITH_TOKEN, ACCOUNTS, LISTED_ACCOUNT, USER_TOKEN } from "../../shapes/projects.ts";
import type { AccountRecord, ListedAccount } from "../../shapes/projects.ts";
import { timestamp } from "../../shapes/common.ts";
import type { ServiceAccount } from "../../store/accounts/accounts.ts";
import { badField, line, prose, QUOTAS } from "../api/inputs.ts";
import { type Operation, type Params, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const DAY_MS = 86_400_000;
const LIFE_MS = 90 * DAY_MS;
const MAX_AHEAD_MS = 10 * 365 * DAY_MS;

/** A time, or a date, which means the end of that day in UTC; in epoch milliseconds. */
const EXPIRY = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()])
  .transform((text) => (text.length === 10 ? Date.parse(text) + DAY_MS - 1 : Date.parse(text)))
  .nullish();

/** The spellings of the expiry that clients use. */
const EXPIRY_MEMBERS = { expiresAt: EXPIRY, expires_at: EXPIRY, expiry: EXPIRY, expiryDate: EXPIRY };

/** The expiry in a body; null if there is none. Throws `bad_request` for a time that is out of range. */
function expiryOf(body: z.output<z.ZodObject<typeof EXPIRY_MEMBERS>>, now: number): number | null {
  const { expiresAt: first, expires_at: second, expiry: third, expiryDate: fourth } = body;
  const given = new Set([first, second, third, fourth].flatMap((time) => time ?? []));
  if (given.size > 1) throw badField("expiresAt", "is given twice, with different values");
  const [expiresAt = null] = given;
  if (expiresAt === null) return null;
  if (expiresAt <= now) throw badField("expiresAt", "has passed already");
  if (expiresAt > now + MAX_AHEAD_MS) throw badField("expiresAt", "is more than ten years ahead");
  return expiresAt;
}

const MAX_NAMES = 100;
const MAX_CALLS_PER_MINUTE = 100_000;

/** Exactly as browsers send it, because it is compared as text. */
const ORIGIN = z
  .string()
  .max(300)
  .refine(
    (text) => /^https?:/.test(text) && URL.parse(text)?.origin === text,
    'is not an origin such as "https://app.example.com": no path, no capital letters',
  );

/** The members of a body with the limits of an account of role `call`. */
const LIMIT_MEMBERS = {
  apps: z.array(z.string().regex(APP_NAME, "is not an app's name")).min(1).max(MAX_NAMES).nullish(),
  functions: z
    .array(z.string().regex(FUNCTION_NAME, "is not a function's name"))
    .min(1)
    .max(MAX_NAMES)
    .nullish(),
  origins: z.array(ORIGIN).min(1).max(MAX_NAMES).nullish(),
  callsPerMinute: z.int().min(1).max(MAX_CALLS_PER_MINUTE).nullish(),
};

/** The limits for a role; null for others than `call`. A missing member keeps its limit, null removes it. */
function limitsOf(
  { apps, functions, origins, callsPerMinute }: z.output<z.ZodObject<typeof LIMIT_MEMBERS>>,
  role: Role,
  before: CallLimits | null,
): CallLimits | null {
  if (role !== "call") {
    if (apps || functions || origins || callsPerMinute)
      throw badField("role", "must be call for an account with apps, functions, origins or callsPerMinute");
    return null;
  }
  const named = apps === undefined ? before?.apps : apps;
  if (!named) throw badField("apps", "must name the apps that an account of role call may call");
  return {
    apps: named,
    functions: functions === undefined ? (before?.functions ?? null) : functions,
    origins: origins === undefined ? (before?.origins ?? null) : origins,
    callsPerMinute: callsPerMinute === undefined ? (before?.callsPerMinute ?? null) : callsPerMinute,
  };
}

const operation = tagged("Service accounts");
const PATH = "/v2/projects/{project_id}/service-accounts";
const ACCOUNT_URL = `${PATH}/{id}` as const;
const MAX_OVERLAP_SECONDS = 30 * 86_400;
const USER_TOKEN_SECONDS = 3_600;
const MAX_USER_TOKEN_SECONDS = 86_400;

const NAME = line(100);
const DESCRIPTION = prose(1000).nullable();
const ROLE = z.enum(ROLES);
const WEIGHT = z.int().min(1).max(MAX_WEIGHT);

const NEW_ACCOUNT = z.object({
  name: NAME,
  description: DESCRIPTION.optional(),
  role: ROLE.nullish(),
  weight: WEIGHT.nullish(),
  quotas: QUOTAS.optional(),
  ...LIMIT_MEMBERS,
  ...EXPIRY_MEMBERS,
});
const CHANGE = NEW_ACCOUNT.extend({
  name: NAME.optional(),
  role: ROLE.optional(),
  weight: WEIGHT.optional(),
});
const NEW_USER_TOKEN = z.object({
  // Not normalized: two spellings are two users.
  user: z
    .string()
    .min(1)
    .max(200)
    .regex(/^[^\p{Cc}\p{Cs}]*$/u, "has control characters"),
  expiresInSeconds: z.int().min(1).max(MAX_USER_TOKEN_SECONDS).default(USER_TOKEN_SECONDS),
});
/** For a change of limits that conflicts with others. */
const TRIES = 5;
const ROTATION = z
  .object({ ...EXPIRY_MEMBERS, overlapSeconds: z.int().min(0).max(MAX_OVERLAP_SECONDS).default(0) })
  .prefault({});

/** A project's service accounts. Their tokens are shown where they are made, and never again. */
export function serviceAccountOperations({
  store,
  tokens,
  operators,
  accountWeights,
  clock,
}: ManagementParts): Operation[] {
  const find = async ({ project_id: projectId, id }: Params<typeof ACCOUNT_URL>) => {
    const found = await store.accounts.find({ id, projectId });
    if (!found) throw notFound();
    return found.account;
  };

  return [
    operation("POST", PATH, {
      id: "createServiceAccount",
      summary: "Create a new service account for the project",
      access: "admin",
      body: NEW_ACCOUNT,
      response: ACCOUNT_WITH_TOKEN,
      handle: async (call) => {
        const { projectId } = call;
        const { name, description = null } = call.body;
        const role = call.body.role ?? "admin";
        const limits = limitsOf(call.body, role, null);
        const now = clock.now();
        const expiresAt = expiryOf(call.body, now) ?? now + LIFE_MS;
        const weight = call.body.weight ?? USUAL_WEIGHT;
        const { quotas = null } = call.body;
        const given = { projectId, name, description, role, limits, weight, quotas, expiresAt };
        const { accountId: id, token, createdAt } = await tokens.issue(given);
        if (weight !== USUAL_WEIGHT) await accountWeights.learn(id);
        const after = shown({ ...given, id, createdAt });
        await call.record("service-account.create", id, { after: { ...after, weight, quotas } });
        call.reply.header("cache-control", "no-store");
        return { ...after, token };
      },
    }),
    operation("GET", PATH, {
      id: "listServiceAccounts",
      summary: "List a project's service accounts, including revoked ones",
      access: "admin",
      response: ACCOUNTS,
      handle: async ({ projectId }) => (await store.accounts.list(projectId)).map(listed),
    }),
    operation("PATCH", ACCOUNT_URL, {
      id: "updateServiceAccount",
      summary: "Change a service account; its expiry can only move earlier",
      access: "admin",
      body: CHANGE,
      response: LISTED_ACCOUNT,
      errors: ["not_found"],
      handle: async (call) => {
        const { id } = call.params;
        const { name, description, role, weight, quotas } = call.body;
        // Retried if another request changed the limits that the change builds on.
        for (let tries = 0; tries < TRIES; tries++) {
          const before = await find(call.params);
          if (before.role === "call" && role && role !== "call")
            throw badField(
              "role",
              "cannot be raised from call: its tokens may be public. Create another account",
            );
          const limits = limitsOf(call.body, role ?? before.role, storedLimits(before));
          // Written only if the request changes them: a rename must not undo a concurrent change of the limits.
          const callLimits = limits && JSON.stringify(limits);
          const expiresAt = expiryOf(call.body, clock.now());
          if (expiresAt !== null && expiresAt > before.expiresAt)
            throw badField("expiresAt", "can only become earlier");
          const change = {
            ...(name !== undefined && { name }),
            ...(description !== undefined && { description }),
            ...(role !== undefined && { role }),
            ...(weight !== undefined && { weight }),
            ...(quotas !== undefined && { quotas: packQuotas(quotas) }),
            ...(callLimits && callLimits !== before.callLimits && { callLimits }),
            ...(expiresAt !== null && { expiresAt }),
          };
          const limitsBefore = "callLimits" in change ? (before.callLimits ?? undefined) : undefined;
          if (!(await tokens.update(call.projectId, id, change, limitsBefore))) continue;
          if (weight !== undefined) await accountWeights.learn(id);
          const after = { ...before, ...change };
          const recorded = { before: audited(before), after: audited(after) };
          await call.record("service-account.update", id, recorded);
          return listed(after);
        }
        throw notFound();
      },
    }),
    operation("POST", `${ACCOUNT_URL}/rotate`, {
      id: "rotateServiceAccount",
      summary: "Rotate a service account's token; the old one expires after the overlap",
      access: "admin",
      body: ROTATION,
      response: ACCOUNT_WITH_TOKEN,
      errors: ["not_found"],
      handle: async (call) => {
        const { id } = call.params;
        const before = await find(call.params);
        // Its token runs the installation: no other admin of the project may get one.
        if (await operators.isOwnerAccount(id)) await operators.require(call.principal);
        const rotated = await tokens.rotate(call.projectId, id, {
          expiresAt: expiryOf(call.body, clock.now()),
          overlapMs: call.body.overlapSeconds * 1000,
        });
        if (!rotated) throw notFound();
        const { token, expiresAt } = rotated;
        const after = shownRow({ ...before, expiresAt });
        await call.record("service-account.rotate", id, { before: shownRow(before), after });
        call.reply.header("cache-control", "no-store");
        return { ...after, token };
      },
    }),
    operation("POST", `${ACCOUNT_URL}/tokens`, {
      id: "createUserToken",
      summary: "Create a token for one end user of an account of role call",
      access: "run",
      body: NEW_USER_TOKEN,
      response: USER_TOKEN,
      errors: ["not_found"],
      handle: async (call) => {
        const { id } = call.params;
        const { user, expiresInSeconds } = call.body;
        const { role } = await find(call.params);
        if (role !== "call") {
          const message = `Only an account of role call has end users; this one has the role ${role}.`;
          throw new AppError("bad_request", { message });
        }
        const issued = await tokens.issueForUser(call.projectId, id, {
          user,
          lifeMs: expiresInSeconds * 1000,
        });
        if (!issued) throw notFound();
        const expiresAt = timestamp(issued.expiresAt);
        await call.record("service-account.user-token", id, { after: { user, expiresAt } });
        call.reply.header("cache-control", "no-store");
        return { token: issued.token, expiresAt };
      },
    }),
    operation("DELETE", ACCOUNT_URL, {
      id: "deleteServiceAccount",
      summary: "Revoke a service account; its tokens stop working within 5 seconds",
      access: "admin",
      response: LISTED_ACCOUNT,
      errors: ["not_found"],
      handle: async (call) => {
        const { id } = call.params;
        const before = await find(call.params);
        // Idempotent.
        if (await tokens.revoke(call.projectId, id)) {
          await call.record("service-account.delete", id, { before: shownRow(before) });
        }
        return listed(await find(call.params));
      },
    }),
  ];
}

type Shown = Omit<ServiceAccount, "callLimits" | "weight" | "quotas" | "lastUsedAt" | "revokedAt">;

function shown(account: Shown & { readonly limits: CallLimits | null }): AccountRecord {
  const { id, name, description, role, projectId, createdAt, expiresAt, limits } = account;
  return {
    id,
    name,
    description,
    role,
    projectId: projectId ?? "",
    createdAt: timestamp(createdAt),
    expiresAt: timestamp(expiresAt),
    ...(limits && {
      apps: [...limits.apps],
      functions: limits.functions && [...limits.functions],
      origins: limits.origins && [...limits.origins],
      callsPerMinute: limits.callsPerMinute,
    }),
  };
}

function shownRow(account: Shown & Pick<ServiceAccount, "callLimits">): AccountRecord {
  return shown({ ...account, limits: account.role === "call" ? storedLimits(account) : null });
}

function audited(account: ServiceAccount): object {
  const { weight, quotas } = account;
  return { ...shownRow(account), weight, quotas: readQuotas(quotas) };
}

function listed(account: ServiceAccount): ListedAccount {
  const { lastUsedAt, revokedAt } = account;
  return {
    ...shownRow(account),
    weight: account.weight,
    quotas: readQuotas(account.quotas),
    lastUsedAt: lastUsedAt === null ? null : timestamp(lastUsedAt),
    revokedAt: revokedAt === null ? null : timestamp(revokedAt),
  };
}

function notFound(): AppError {
  return new AppError("not_found", { message: "The project has no such service account." });
}
