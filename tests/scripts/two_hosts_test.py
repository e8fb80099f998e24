import os
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "two_hosts"


def run(*arguments):
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=50)


def namespaces():
    return {line.split()[0] for line in subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout.splitlines()}


def why_no_hosts():
    """What the script says where there can be no hosts; nothing where there can."""
    if os.getuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip") or not shutil.which("tc"):
        return "is not installed; install iproute2"
    probe = f"weft-probe-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode:
        return "a network namespace could not be made"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return None


class TwoHosts(unittest.TestCase):
    def setUp(self):
        self.why_not = why_no_hosts()

    def assert_hosts(self, arguments, status, output, errors=""):
        """What comes of it where there can be hosts; elsewhere the script must say why there are none."""
        before = namespaces() if not self.why_not else set()
        result = run(*arguments)
        if self.why_not:
            self.assertEqual(result.returncode, 2)
            self.assertIn(self.why_not, result.stderr)
            return
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, output)
        self.assertIn(errors, result.stderr)
        self.assertLessEqual(namespaces(), before, "nothing is left behind")

    def test_help_says_what_it_does(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("usage: two_hosts", result.stdout)

    def test_what_is_not_understood_is_an_error(self):
        for arguments, text in [
            ((), "usage: two_hosts"),
            (("--rate",), "--rate needs a rate"),
            (("--speed", "1gbit"), "unknown option --speed"),
            (("--hold", "true"), "--hold runs no command, but got 'true'"),
        ]:
            result = run(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(text, result.stderr)

    def test_runs_the_command_as_two_ranks(self):
        command = 'echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR"'
        self.assert_hosts(
            ("sh", "-c", command), 0, "rank 0 of 2 at 192.0.2.1\n", errors="rank 1 of 2 at 192.0.2.1\n"
        )

    def test_the_other_rank_is_ended_when_one_fails(self):
        self.assert_hosts(("sh", "-c", "[ $RANK = 0 ] && exec sleep 40; exit 3"), 3, "")

    def test_a_rank_that_does_not_listen_is_ended_too(self):
        self.assert_hosts(("sh", "-c", "[ $RANK = 1 ] && exit 3; trap '' TERM; sleep 40; sleep 40"), 3, "")

    def test_a_rate_that_tc_does_not_know_is_an_error(self):
        self.assert_hosts(("--rate", "fast", "true"), 2, "", errors="tc does not take the rate 'fast'")

    def test_hosts_are_held_until_stdin_ends_or_a_signal_comes(self):
        if self.why_not:
            return self.assert_hosts(("--hold",), 2, "")
        for end in (lambda p: p.stdin.close(), lambda p: p.send_signal(signal.SIGTERM)):
            process = subprocess.Popen([SCRIPT, "--hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            hosts = [process.stdout.readline().split() for _ in range(2)]
            self.assertEqual([host[2] for host in hosts], ["192.0.2.1", "192.0.2.2"])
            self.assertLessEqual({host[0] for host in hosts}, namespaces())
            end(process)
            process.wait(timeout=20)
            process.stdin.close()
            process.stdout.close()
            deadline = time.monotonic() + 10
            while {host[0] for host in hosts} & namespaces() and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertFalse({host[0] for host in hosts} & namespaces())


if __name__ == "__main__":
    unittest.main()
