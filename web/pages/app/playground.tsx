import { Page } from "../../parts/page.tsx";

export function AppPlayground() {
  return <Page title="AppPlayground">NOT WRITTEN</Page>;
}
