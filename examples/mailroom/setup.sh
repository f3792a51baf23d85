# One morning's mail. A letter's first line names the room that it goes to, the second its weight.
mkdir -p /mail/inbox /mail/kitchen /mail/office /mail/workshop /mail/returned
letter() { printf 'To: %s\nWeight: %s g\n\n%s\n' "$2" "$3" "$4" > "/mail/inbox/$1"; }
letter 01.txt Kitchen 20 'The oven will be repaired on Monday.'
letter 02.txt Office 310 'Enclosed is the contract, in two copies.'
letter 03.txt Workshop 45 'Your order of sandpaper is delayed.'
letter 04.txt Office 18 'Invoice 2231 is due.'
letter 05.txt Cellar 25 'To whom it may concern.'
letter 06.txt Kitchen 640 'Samples of flour, as you wished.'
letter 07.txt Workshop 505 'The new blade for the saw. Invoice 88 follows.'
letter 08.txt Office 22 'Greetings from the seaside.'
