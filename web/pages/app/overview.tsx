import { Page } from "../../parts/page.tsx";

export function AppOverview() {
  return <Page title="AppOverview">NOT WRITTEN</Page>;
}
