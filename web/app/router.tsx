import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { readAuditSearch } from "../api/audit.ts";
import { readRange } from "../api/figures.ts";
import { readLogSearch } from "../api/logs.ts";
import { readPlaygroundSearch } from "../api/playground-search.ts";
import { readRunSearch, readTranscriptView } from "../api/run-search.ts";
import { wayBack } from "../api/way-back.ts";
import { readUsageSearch } from "../api/usage.ts";
import { readDeliverySearch } from "../api/webhooks.ts";
import { Broken } from "./broken.tsx";
import { Gate } from "./gate.tsx";
import { NotFound } from "./not-found.tsx";
import { Shell } from "./shell.tsx";

const root = createRootRoute({});

// Pages before the sign-in.
const signIn = createRoute({
  getParentRoute: () => root,
  path: "sign-in",
  validateSearch: (search: Record<string, unknown>): { to?: string } => {
    const to = wayBack(search["to"], location.origin);
    return to === null ? {} : { to };
  },
  component: lazyRouteComponent(() => import("../pages/sign-in.tsx"), "SignIn"),
});
const setup = createRoute({
  getParentRoute: () => root,
  path: "setup",
  component: lazyRouteComponent(() => import("../pages/set-up.tsx"), "SetUp"),
});
const password = createRoute({
  getParentRoute: () => root,
  path: "password",
  component: lazyRouteComponent(() => import("../pages/set-password.tsx"), "SetPassword"),
});

const forgotten = createRoute({
  getParentRoute: () => root,
  path: "forgotten",
  component: lazyRouteComponent(() => import("../pages/forgotten.tsx"), "Forgotten"),
});
// These two ask who it is themselves: what their links carry must not get into the address of the sign-in.
const invitation = createRoute({
  getParentRoute: () => root,
  path: "invitation",
  component: lazyRouteComponent(() => import("../pages/invitation.tsx"), "InvitationPage"),
});
const prove = createRoute({
  getParentRoute: () => root,
  path: "prove",
  component: lazyRouteComponent(() => import("../pages/prove.tsx"), "Prove"),
});

// For whoever comes: what it tries needs a token, and it asks for one.
const reference = createRoute({
  getParentRoute: () => root,
  path: "docs",
  component: lazyRouteComponent(() => import("../pages/reference.tsx"), "Reference"),
});

// Everything else needs somebody.
const gate = createRoute({ getParentRoute: () => root, id: "gate", component: Gate });
const home = createRoute({
  getParentRoute: () => gate,
  path: "/",
  component: lazyRouteComponent(() => import("../pages/home.tsx"), "Home"),
});
const device = createRoute({
  getParentRoute: () => gate,
  path: "device",
  validateSearch: (search: Record<string, unknown>): { user_code?: string } =>
    typeof search["user_code"] === "string" ? { user_code: search["user_code"] } : {},
  component: lazyRouteComponent(() => import("../pages/device.tsx"), "Device"),
});

const project = createRoute({ getParentRoute: () => gate, path: "projects/$projectId", component: Shell });
const overview = createRoute({
  getParentRoute: () => project,
  path: "/",
  validateSearch: readRange,
  component: lazyRouteComponent(() => import("../pages/overview.tsx"), "Overview"),
});
const apps = createRoute({
  getParentRoute: () => project,
  path: "apps",
  validateSearch: ({ search, page, sort }: Record<string, unknown>): AppSearch => ({
    // The address may hold a number where a text was typed.
    ...((typeof search === "string" || typeof search === "number") && { search: String(search) }),
    ...(Number.isSafeInteger(page) && Number(page) > 1 && { page: Number(page) }),
    ...(typeof sort === "string" && { sort }),
  }),
  component: lazyRouteComponent(() => import("../pages/apps.tsx"), "Apps"),
});
const app = createRoute({
  getParentRoute: () => project,
  path: "apps/$appName",
  component: lazyRouteComponent(() => import("../pages/app/app.tsx"), "AppPage"),
});
const appOverview = createRoute({
  getParentRoute: () => app,
  path: "/",
  validateSearch: readRange,
  component: lazyRouteComponent(() => import("../pages/app/overview.tsx"), "AppOverview"),
});
const appRuns = createRoute({
  getParentRoute: () => app,
  path: "runs",
  validateSearch: readRunSearch,
  component: lazyRouteComponent(() => import("../pages/app/runs.tsx"), "AppRuns"),
});
const appLogs = createRoute({
  getParentRoute: () => app,
  path: "logs",
  validateSearch: readLogSearch,
  component: lazyRouteComponent(() => import("../pages/app/logs.tsx"), "AppLogs"),
});
const appBuilds = createRoute({
  getParentRoute: () => app,
  path: "builds",
  component: lazyRouteComponent(() => import("../pages/app/builds.tsx"), "AppBuilds"),
});
const appBuild = createRoute({
  getParentRoute: () => app,
  path: "builds/$buildId",
  component: lazyRouteComponent(() => import("../pages/app/build.tsx"), "AppBuild"),
});
const appQueue = createRoute({
  getParentRoute: () => app,
  path: "queue",
  component: lazyRouteComponent(() => import("../pages/app/queue.tsx"), "AppQueue"),
});
const appSchedules = createRoute({
  getParentRoute: () => app,
  path: "schedules",
  component: lazyRouteComponent(() => import("../pages/app/schedules.tsx"), "AppSchedules"),
});
const appBatches = createRoute({
  getParentRoute: () => app,
  path: "batches",
  component: lazyRouteComponent(() => import("../pages/app/batches.tsx"), "AppBatches"),
});
const appBatch = createRoute({
  getParentRoute: () => app,
  path: "batches/$batchId",
  component: lazyRouteComponent(() => import("../pages/app/batch.tsx"), "AppBatch"),
});
const appPlayground = createRoute({
  getParentRoute: () => app,
  path: "playground",
  validateSearch: readPlaygroundSearch,
  component: lazyRouteComponent(() => import("../pages/app/playground.tsx"), "AppPlayground"),
});
const appSettings = createRoute({
  getParentRoute: () => app,
  path: "settings",
  component: lazyRouteComponent(() => import("../pages/app/settings.tsx"), "AppSettings"),
});
const appSecrets = createRoute({
  getParentRoute: () => app,
  path: "secrets",
  component: lazyRouteComponent(() => import("../pages/app/secrets.tsx"), "AppSecrets"),
});
const appDanger = createRoute({
  getParentRoute: () => app,
  path: "danger",
  component: lazyRouteComponent(() => import("../pages/app/danger.tsx"), "AppDanger"),
});
const run = createRoute({
  getParentRoute: () => project,
  path: "apps/$appName/runs/$runId",
  validateSearch: readTranscriptView,
  component: lazyRouteComponent(() => import("../pages/run/run.tsx"), "RunPage"),
});
const runs = createRoute({
  getParentRoute: () => project,
  path: "runs",
  validateSearch: readRunSearch,
  component: lazyRouteComponent(() => import("../pages/runs.tsx"), "Runs"),
});
const keys = createRoute({
  getParentRoute: () => project,
  path: "keys",
  component: lazyRouteComponent(() => import("../pages/keys.tsx"), "Keys"),
});
const webhooks = createRoute({
  getParentRoute: () => project,
  path: "webhooks",
  validateSearch: readDeliverySearch,
  component: lazyRouteComponent(() => import("../pages/webhooks.tsx"), "Webhooks"),
});
const delivery = createRoute({
  getParentRoute: () => project,
  path: "webhooks/$deliveryId",
  component: lazyRouteComponent(() => import("../pages/delivery.tsx"), "DeliveryPage"),
});
const files = createRoute({
  getParentRoute: () => project,
  path: "files",
  validateSearch: ({ dir }: Record<string, unknown>): { dir?: string } =>
    typeof dir === "string" && dir !== "" ? { dir } : {},
  component: lazyRouteComponent(() => import("../pages/files.tsx"), "Files"),
});
const audit = createRoute({
  getParentRoute: () => project,
  path: "audit",
  validateSearch: readAuditSearch,
  component: lazyRouteComponent(() => import("../pages/audit.tsx"), "Audit"),
});
const usage = createRoute({
  getParentRoute: () => project,
  path: "usage",
  validateSearch: readUsageSearch,
  component: lazyRouteComponent(() => import("../pages/usage.tsx"), "Usage"),
});
const nodes = createRoute({
  getParentRoute: () => project,
  path: "nodes",
  component: lazyRouteComponent(() => import("../pages/nodes.tsx"), "Nodes"),
});
const hardware = createRoute({
  getParentRoute: () => project,
  path: "hardware",
  component: lazyRouteComponent(() => import("../pages/hardware.tsx"), "Hardware"),
});
const settings = createRoute({
  getParentRoute: () => project,
  path: "settings",
  component: lazyRouteComponent(() => import("../pages/settings.tsx"), "Settings"),
});
/** What the list of apps is narrowed to, its order, and which part of it is shown. */
type AppSearch = { readonly search?: string; readonly page?: number; readonly sort?: string };

const tree = root.addChildren([
  signIn,
  setup,
  password,
  forgotten,
  invitation,
  prove,
  reference,
  gate.addChildren([
    home,
    device,
    project.addChildren([
      overview,
      apps,
      app.addChildren([
        appOverview,
        appRuns,
        appLogs,
        appBuilds,
        appBuild,
        appQueue,
        appSchedules,
        appBatches,
        appBatch,
        appPlayground,
        appSettings,
        appSecrets,
        appDanger,
      ]),
      run,
      runs,
      keys,
      webhooks,
      delivery,
      files,
      audit,
      usage,
      nodes,
      hardware,
      settings,
    ]),
  ]),
]);

export const router = createRouter({
  routeTree: tree,
  defaultPreload: "intent",
  // What no page has asked for is not handed to any.
  search: { strict: true },
  defaultNotFoundComponent: NotFound,
  defaultErrorComponent: Broken,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
