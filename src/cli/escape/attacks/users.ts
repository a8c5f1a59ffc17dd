import { attack, proven } from "../attack.ts";
import type { Attack } from "../attack.ts";

/** Ways to be, or to become, the user that the service runs as. */
export const USERS: readonly Attack[] = [
  attack("uid", "own the harness", `require(os.stat(harness_dir).st_uid == os.getuid())`),
  proven("uid", "be the service's user", `require(service_user in os.getresuid())`),
  proven("uid", "become the service's user", `os.setresuid(service_user, service_user, service_user)`),
  proven("uid", "take the service's group", `os.setresgid(service_group, service_group, service_group)`),
  attack("uid", "keep the service's groups", `require(os.getgroups() not in ([], [os.getgid()]))`),
];
