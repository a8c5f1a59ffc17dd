// After every install in a clone, so that `npm start` finds a dashboard. Where the tools are not installed there is
// nothing to do: a published package brings the dashboard along.
const vite = await import("vite").catch(() => null);
await vite?.build({ configFile: "web/vite.config.ts", logLevel: "warn" });
