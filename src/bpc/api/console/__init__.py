"""/console: pages for people who work with passports. A page calls routes of the API as the actor of its session.

    browser ─► ConsoleRoute: session, same origin ─► page (pages/) ─► ApiCalls ─► routes of the API, as any client
                                                          └─► template (templates/), texts (words/) ─► HTML

There is no second way into the data: a page sees what the API answers to its actor, and nothing else.
"""
