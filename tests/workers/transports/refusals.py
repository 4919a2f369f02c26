"""What is raised by a way that cannot be gone."""

from perfloom.domain.errors import PerfloomError
from perfloom.domain.targets import Ssh, Target
from perfloom.workers import transports
from perfloom.workers.transports import SecretProvider, no_secrets, open_transport


def failure(ssh: Ssh, secrets: SecretProvider = no_secrets) -> PerfloomError:
    """The error of connecting; fails where there is none."""
    try:
        with open_transport(Target("far", ssh=ssh), secrets) as there:
            there.run("true")
    except PerfloomError as error:
        return error
    finally:
        transports.close_all()
    raise AssertionError("it let us in")


def works(ssh: Ssh, secrets: SecretProvider = no_secrets) -> str:
    """$SSH_CONNECTION at the host, on a separate connection."""
    try:
        with open_transport(Target("far", ssh=ssh), secrets) as there:
            return there.run("echo $SSH_CONNECTION").text
    finally:
        transports.close_all()
