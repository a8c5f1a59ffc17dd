import { Page } from "../../parts/page.tsx";

export function AppDanger() {
  return <Page title="AppDanger">NOT WRITTEN</Page>;
}
