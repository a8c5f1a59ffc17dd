import { z } from "zod";
import type { Principal } from "../../identity/principal.ts";
import { randomName } from "../../kit/ids.ts";
import { AppError } from "../../model/errors.ts";
import { packQuotas, readQuotas } from "../../model/usage.ts";
import { AUDIT } from "../../shapes/projects.ts";
import { PROJECT, PROJECT_DETAILS, PROJECTS } from "../../shapes/people.ts";
import { timestamp } from "../../shapes/common.ts";
import { line, NEXT_TOKEN, pageSize, QUOTAS, TIME } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Projects");
const audited = tagged("Audit");
const PATH = "/v2/projects";

export function projectOperations({ store, people, projectQuotas }: ManagementParts): Operation[] {
  const detailsOf = async (projectId: string) => {
    const project = await store.projects.find(projectId);
    // Of a project that does not exist no one has a role.
    if (!project) throw new AppError("forbidden");
    const [limited] = await store.projects.quotas([projectId]);
    return { id: project.id, name: project.name, quotas: readQuotas(limited?.quotas ?? null) };
  };

  const projectsOf = async (principal: Principal) => {
    if (principal.projectId === null) return await store.memberships.projectsOf(principal.personId);
    const own = await store.projects.find(principal.projectId);
    return own ? [own] : [];
  };
  const create = async (personId: string, name: string): Promise<string> => {
    for (;;) {
      const id = `p-${randomName(8)}`;
      if (await people.createProject(personId, { id, name })) return id;
    }
  };

  return [
    operation("GET", PATH, {
      id: "listProjects",
      summary: "List your projects; for a service account, its own",
      access: "any",
      response: PROJECTS,
      handle: async ({ principal }) => (await projectsOf(principal)).map(({ id, name }) => ({ id, name })),
    }),
    operation("POST", PATH, {
      id: "createProject",
      summary: "Create a project; you become its owner",
      access: "person",
      body: z.object({ name: line(100) }),
      response: PROJECT,
      handle: async (call) => {
        const { name } = call.body;
        const id = await create(call.principal.personId, name);
        await call.record("project.create", id, { projectId: id, after: { name } });
        return { id, name };
      },
    }),
    operation("GET", `${PATH}/{project_id}`, {
      id: "getProject",
      summary: "Get a project's name and quotas",
      access: "run",
      response: PROJECT_DETAILS,
      handle: async ({ projectId }) => await detailsOf(projectId),
    }),
    operation("PATCH", `${PATH}/{project_id}`, {
      id: "updateProject",
      summary: "Change a project's name, or what all its calls together may use",
      access: "admin",
      body: z.object({ name: line(100).optional(), quotas: QUOTAS.optional() }),
      response: PROJECT_DETAILS,
      handle: async (call) => {
        const { projectId: id } = call;
        const { name, quotas } = call.body;
        const before = await detailsOf(id);
        const change = {
          ...(name !== undefined && { name }),
          ...(quotas !== undefined && { quotas: packQuotas(quotas) }),
        };
        await store.projects.update({ id, change });
        await projectQuotas.learn(id);
        const after = await detailsOf(id);
        await call.record("project.update", id, { before, after });
        return after;
      },
    }),
  ];
}

export function auditOperations({ audit }: ManagementParts): Operation[] {
  return [
    audited("GET", "/v2/projects/{project_id}/audit", {
      id: "listAudit",
      summary: "List every change in a project, newest first",
      access: "admin",
      query: z.object({
        actor: z.string().max(100).optional(),
        action: z.string().max(100).optional(),
        target: z.string().max(400).optional(),
        from: TIME.optional(),
        to: TIME.optional(),
        pageSize: pageSize(50, 1000),
        nextToken: NEXT_TOKEN.regex(/^\d{0,15}$/, "does not belong to this list").optional(),
      }),
      response: AUDIT,
      handle: async ({ projectId, query }) => {
        const { pageSize: limit, nextToken = "", actor, action, target, from: fromMs, to: toMs } = query;
        const before = nextToken === "" ? {} : { before: Number(nextToken) };
        const filter = {
          ...(actor && { actor }),
          ...(action && { action }),
          ...(target && { target }),
          ...(fromMs !== undefined && { fromMs }),
          ...(toMs !== undefined && { toMs }),
        };
        const { entries, next } = await audit.search({ projectId, limit, ...before }, filter);
        return {
          items: entries.map(({ number, createdAt, ...rest }) => ({
            ...rest,
            id: String(number),
            createdAt: timestamp(createdAt),
          })),
          nextToken: next === null ? "" : String(next),
        };
      },
    }),
  ];
}
