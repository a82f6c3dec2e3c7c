"""The proxy of graphical consoles: console.py ARGUMENTS.

A token is in the database of the cell that its server is in. Nova's proxy asks the one database of its configuration; this one asks
all cells at once, so that one address is enough whatever number of cells there are, and a cell that is away keeps no other waiting.
"""

import sys

# First, for it patches the standard library.
from nova.cmd import novncproxy

from nova import context, exception, objects
from nova.console.websocketproxy import NovaProxyRequestHandler

# How long a cell may take to answer.
PATIENCE_SECONDS = 5


def ask_all_cells():
    in_one_cell = NovaProxyRequestHandler._get_connect_info

    def get_connect_info(self, admin, token):
        cells = {cell.uuid: cell for cell in objects.CellMappingList.get_all(admin) if not cell.is_cell0()}
        validate = objects.ConsoleAuthToken.validate
        said = context.scatter_gather_cells(admin, cells.values(), PATIENCE_SECONDS, validate, token)
        for uuid, answer in said.items():
            if isinstance(answer, objects.ConsoleAuthToken):
                with context.target_cell(admin, cells[uuid]) as within:
                    return in_one_cell(self, within, token)
        # None of them knows it, or it has expired.
        raise exception.InvalidToken(token="***")

    NovaProxyRequestHandler._get_connect_info = get_connect_info


def keep_tokens_out_of_the_log():
    say = NovaProxyRequestHandler.log_message

    def log_message(self, text, *args):
        # The path of a request ends with the token.
        if "Path: " not in text:
            say(self, text, *args)

    NovaProxyRequestHandler.log_message = log_message


if __name__ == "__main__":
    ask_all_cells()
    keep_tokens_out_of_the_log()
    sys.argv = ["nova-novncproxy", *sys.argv[1:]]
    novncproxy.main()
