import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { Gate } from "./gate.tsx";
import { NotFound } from "./not-found.tsx";
import { Shell } from "./shell.tsx";

const root = createRootRoute({ notFoundComponent: NotFound });

// Pages before the sign-in.
const signIn = createRoute({
  getParentRoute: () => root,
  path: "sign-in",
  validateSearch: (search: Record<string, unknown>): { to?: string } => {
    const { to } = search;
    // Only ways within the dashboard: a link must not lead elsewhere after the sign-in.
    return typeof to === "string" && /^\/(?![/\\])/.test(to) ? { to } : {};
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
  component: lazyRouteComponent(() => import("../pages/overview.tsx"), "Overview"),
});
const apps = createRoute({
  getParentRoute: () => project,
  path: "apps",
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
  component: lazyRouteComponent(() => import("../pages/app/overview.tsx"), "AppOverview"),
});
const appRuns = createRoute({
  getParentRoute: () => app,
  path: "runs",
  validateSearch: (search: Record<string, unknown>) => search as RunSearch,
  component: lazyRouteComponent(() => import("../pages/app/runs.tsx"), "AppRuns"),
});
const appLogs = createRoute({
  getParentRoute: () => app,
  path: "logs",
  validateSearch: (search: Record<string, unknown>) => search as { search?: string; runId?: string },
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
const appPlayground = createRoute({
  getParentRoute: () => app,
  path: "playground",
  validateSearch: (search: Record<string, unknown>) => search as { from?: string; function?: string },
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
  component: lazyRouteComponent(() => import("../pages/run/run.tsx"), "RunPage"),
});
const runs = createRoute({
  getParentRoute: () => project,
  path: "runs",
  validateSearch: (search: Record<string, unknown>) => search as RunSearch,
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
  validateSearch: (search: Record<string, unknown>) => search as { state?: string },
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
  validateSearch: (search: Record<string, unknown>) => search as { dir?: string },
  component: lazyRouteComponent(() => import("../pages/files.tsx"), "Files"),
});
const audit = createRoute({
  getParentRoute: () => project,
  path: "audit",
  component: lazyRouteComponent(() => import("../pages/audit.tsx"), "Audit"),
});
const settings = createRoute({
  getParentRoute: () => project,
  path: "settings",
  component: lazyRouteComponent(() => import("../pages/settings.tsx"), "Settings"),
});
/** What a list of runs can be narrowed to; all of it is in the address. */
export type RunSearch = {
  readonly status?: string;
  readonly mode?: "sync" | "async";
  readonly function?: string;
  readonly from?: string;
  readonly to?: string;
  readonly app?: string;
};

const tree = root.addChildren([
  signIn,
  setup,
  password,
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
      settings,
    ]),
  ]),
]);

export const router = createRouter({
  routeTree: tree,
  defaultPreload: "intent",
  defaultNotFoundComponent: NotFound,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
