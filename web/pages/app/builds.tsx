import { Page } from "../../parts/page.tsx";

export function AppBuilds() {
  return <Page title="AppBuilds">NOT WRITTEN</Page>;
}
