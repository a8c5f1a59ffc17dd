import { Page } from "../../parts/page.tsx";

export function AppLogs() {
  return <Page title="AppLogs">NOT WRITTEN</Page>;
}
