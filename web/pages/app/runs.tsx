import { Page } from "../../parts/page.tsx";

export function AppRuns() {
  return <Page title="AppRuns">NOT WRITTEN</Page>;
}
