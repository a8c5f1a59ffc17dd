import { Page } from "../../parts/page.tsx";

export function AppBuild() {
  return <Page title="AppBuild">NOT WRITTEN</Page>;
}
